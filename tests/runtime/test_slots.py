"""Places in a process: in all, for each user, by priority, then in order."""

from __future__ import annotations

from deerflow.runtime.slots import Slots


def taken(slots: Slots) -> list[str]:
    found: list[str] = []
    while (name := slots.take()) is not None:
        found.append(name)
    return found


def test_priority_goes_first_then_order() -> None:
    slots = Slots(10, 10)
    for name, priority in (("a", 0), ("b", 10), ("c", 0), ("d", 10)):
        slots.wait(name, "anna", priority)
    assert taken(slots) == ["b", "d", "a", "c"]


def test_a_user_who_has_all_of_hers_waits_and_lets_others_pass() -> None:
    slots = Slots(10, 2)
    for name, user in (("a1", "anna"), ("a2", "anna"), ("a3", "anna"), ("b1", "ben")):
        slots.wait(name, user, 0)
    assert taken(slots) == ["a1", "a2", "b1"]
    slots.free("a1")
    assert taken(slots) == ["a3"]


def test_no_more_than_the_total() -> None:
    slots = Slots(2, 2)
    assert slots.enter("a", "anna")
    slots.wait("b", "ben", 0)
    slots.wait("c", "carl", 0)
    assert taken(slots) == ["b"]
    assert not slots.enter("d", "dora")
    slots.free("a")
    slots.free("a")  # twice is once
    assert taken(slots) == ["c"]
    assert slots.take() is None


def test_who_enters_at_once_counts_for_the_user() -> None:
    slots = Slots(5, 1)
    assert slots.enter("a", "anna")
    assert not slots.enter("b", "anna")
    slots.wait("b", "anna", 0)
    assert slots.take() is None
    slots.free("a")
    assert slots.take() == "b"
