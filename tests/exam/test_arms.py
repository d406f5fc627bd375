"""Each arm adds one thing to the one before; leaky ones are marked."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from deerflow.errors import UsageError
from deerflow.exam.arms import ARMS, matched


def changed(one: str, other: str) -> dict[str, object]:
    before, after = asdict(ARMS[one].policy), asdict(ARMS[other].policy)
    return {key: value for key, value in after.items() if before[key] != value}


def test_the_names_in_order() -> None:
    assert list(ARMS) == ["A0", "A1", "A2", "A3", "A4", "A5", "A6", "R1", "R2"]
    assert all(arm.name == name and arm.sentence.endswith(".") for name, arm in ARMS.items())


def test_each_adds_one_thing() -> None:
    assert changed("A0", "A1") == {"self_check": True}
    assert changed("A0", "A2") == {"validate": True, "max_attempts": 3}
    assert changed("A2", "A3") == {"blind": True}
    assert changed("A3", "A4") == {"code_check": True}
    assert changed("A4", "A5") == {"adjudicate": True}
    assert changed("A2", "R1") == {"reference": "content_free"}
    assert changed("A2", "R2") == {"reference": "free"}
    assert changed("A0", "A6") == {"samples": 6}


def test_the_key_is_seen_in_leaky_arms_alone() -> None:
    assert [name for name, arm in ARMS.items() if arm.leaky] == ["R1", "R2"]
    assert all(arm.leaky == bool(arm.policy.reference) for arm in ARMS.values())


def test_the_majority_takes_as_many_calls_as_the_pair() -> None:
    assert ARMS["A6"].policy.most_calls == ARMS["A2"].policy.most_calls == 6
    assert matched(2.4).policy.samples == 2
    assert matched(6).policy == ARMS["A6"].policy
    assert "2 answers" in matched(2).sentence


@pytest.mark.parametrize("calls", [0, -1, 0.2, 100, float("nan"), float("inf")])
def test_no_calls_cannot_be_matched(calls: float) -> None:
    with pytest.raises(UsageError):
        matched(calls)
