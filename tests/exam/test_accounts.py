"""What records tell beside their answers, also when anybody wrote them."""

from __future__ import annotations

from typing import Any

import pytest

from deerflow.exam.accounts import Spent, account, by_role, summed
from fakes.exams import answer, letter, told


def of(raw: dict[str, Any], **other: Any) -> Any:
    return account(answer(letter(), "B", raw=raw, **other))


def test_all_that_is_told() -> None:
    history = [
        {"step": "blind", "response": "A"},
        {"step": "resolve", "response": "C"},
        {"step": "resolve", "response": "B"},
    ]
    found = of(told("accepted", attempts=2, history=history), latency_ms=70)
    assert (found.state, found.accepted, found.attempts) == ("accepted", True, 2)
    assert (found.stated, found.agreement, found.first) == (0.9, 1.0, "C")
    assert (found.latency_ms, found.error) == (70, "")
    assert found.spent["resolver"] == Spent(1, 90, 10, 30, {"USD": 0.02})
    assert found.total == Spent(2, 180, 20, 60, {"USD": 0.04})
    assert found.total.total == 200


def test_nothing_is_told() -> None:
    found = of({})
    assert (found.state, found.accepted, found.attempts, found.first) == ("", None, 0, None)
    assert (found.stated, found.agreement, found.total) == (None, None, Spent())


@pytest.mark.parametrize("state", ["unvalidated", "validator_error", "budget_exceeded"])
def test_where_no_verdict_was_given_nothing_was_refused(state: str) -> None:
    assert of(told(state)).accepted is None


def test_who_was_exhausted_was_refused() -> None:
    assert of(told("exhausted")).accepted is False
    assert of({"accepted": True}).accepted is True


@pytest.mark.parametrize(
    ("error", "code"),
    [({"code": "model_error", "message": "x"}, "model_error"), ("timeout", "timeout"), (7, "")],
)
def test_the_error(error: object, code: str) -> None:
    assert of(told("resolver_error", error=error)).error == code


@pytest.mark.parametrize(
    "raw",
    [
        {"state": 7, "accepted": "false", "attempts": "3"},
        {"state": "splendid", "attempts": True, "tokens": [1]},
        {"tokens": {"resolver": 5, "validator": {"input": -1, "output": 1.5, "cost": "much"}}},
        {"tokens": {"resolver": {"calls": None, "cost": {"USD": float("nan"), "EUR": -1}}}},
        {"confidence": {"stated": 1.5, "agreement": "high"}},
        {"confidence": [0.5], "history": {"step": "resolve", "response": "B"}},
        {"history": [None, "resolve", {"step": "resolve", "response": 7}], "error": ["x"]},
    ],
)
def test_what_is_of_another_kind_counts_as_not_told(raw: dict[str, Any]) -> None:
    found = of(raw, latency_ms=-5)
    assert (found.state, found.accepted, found.attempts) == ("", None, 0)
    assert (found.stated, found.agreement, found.first, found.error) == (None, None, None, "")
    assert (found.total, found.latency_ms) == (Spent(), 0)


def test_sums_by_role() -> None:
    accounts = [of(told("accepted")), of({"tokens": {"judge": {"input": 5}}}), of({})]
    sums = by_role(accounts)
    assert {role: spent.total for role, spent in sums.items()} == {
        "resolver": 100,
        "validator": 100,
        "judge": 5,
    }
    assert summed(sums.values()).total == 205
    assert accounts[0].spent["resolver"].total == 100
