"""Calibration and the validator as a classifier, against values worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.exam.calibration import (
    Confusion,
    brier,
    calibration_error,
    confusion,
    reliability,
    revisions,
    risk_coverage,
)

STATED = [(0.9, True), (0.9, False), (0.6, True), (0.1, False), (0.0, False)]
ANY = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=30)


def test_the_brier_score() -> None:
    assert brier(STATED) == pytest.approx((0.01 + 0.81 + 0.16 + 0.01 + 0) / 5)
    assert brier([(1.0, True), (0.0, False)]) == 0.0
    assert brier([(1.0, False)]) == 1.0
    assert brier([]) is None


def test_the_reliability_table() -> None:
    table = reliability(STATED)
    assert [each.count for each in table] == [2, 0, 1, 0, 2]
    assert [each.accuracy for each in table] == [0.0, 0.0, 1.0, 0.0, 0.5]
    assert [each.confidence for each in table] == pytest.approx([0.05, 0, 0.6, 0, 0.9])
    assert [(each.low, each.high) for each in table][2] == (0.4, 0.6)


def test_the_calibration_error() -> None:
    assert calibration_error(STATED) == pytest.approx((2 * 0.05 + 0.4 + 2 * 0.4) / 5)
    assert calibration_error([]) is None
    assert calibration_error([(0.5, True), (0.5, False)]) == 0.0


@given(ANY)
def test_one_bin_compares_the_means(stated: list[tuple[float, bool]]) -> None:
    gap = abs(sum(c for c, _ in stated) - sum(r for _, r in stated)) / len(stated)
    assert calibration_error(stated, 1) == pytest.approx(gap)


@given(ANY)
def test_every_answer_is_in_one_bin(stated: list[tuple[float, bool]]) -> None:
    table = reliability(stated, 7)
    assert sum(each.count for each in table) == len(stated)
    for each in table:
        inside = [c for c, _ in stated if each.low < c <= each.high or (c == 0 and each.low == 0)]
        assert len(inside) == each.count


def test_risk_falls_with_coverage() -> None:
    assert risk_coverage(STATED) == [(0.4, 0.5), (0.6, 1 / 3), (0.8, 0.5), (1.0, 0.6)]
    assert risk_coverage([]) == []


@given(ANY)
def test_full_coverage_has_the_risk_of_all(stated: list[tuple[float, bool]]) -> None:
    points = risk_coverage(stated)
    assert points[-1] == (1.0, pytest.approx(sum(not right for _, right in stated) / len(stated)))
    assert [coverage for coverage, _ in points] == sorted({coverage for coverage, _ in points})
    assert len(points) == len({confidence for confidence, _ in stated})


def test_the_validator_as_a_classifier() -> None:
    pairs = [(True, True)] * 6 + [(True, False)] * 2 + [(False, True)] * 3 + [(False, False)] * 4
    found = confusion(pairs)
    assert found == Confusion(6, 2, 3, 4)
    assert (found.total, found.precision, found.recall) == (15, 6 / 8, 6 / 9)
    assert found.false_accepts == 2 / 6


def test_ratios_of_nothing() -> None:
    found = confusion([])
    assert (found.total, found.precision, found.recall, found.false_accepts) == (
        0,
        None,
        None,
        None,
    )


def test_revisions() -> None:
    found = revisions([(True, False), (False, True), (False, True), (True, True), (False, False)])
    assert (found.helpful, found.harmful, found.idle) == (2, 1, 2)
