"""Planning: what is wrong with a task is said before it is kept."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from deerflow.errors import UsageError
from deerflow.runtime.planning import Task, fired, first_of, following, planned, task_of
from deerflow.runtime.request import RunRequest

GO = RunRequest("Go.")
EVERY_MINUTE = Task(GO, cron="* * * * *")
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (Task(RunRequest("  "), cron="* * * * *"), "task is empty"),
        (Task(GO), "either a cron expression or a single time"),
        (Task(GO, cron="* * * * *", at="2100-01-01"), "either"),
        (Task(GO, cron="61 * * * *"), "at character 1"),
        (Task(GO, cron="* * * * *", zone="Europe/Berln"), "Did you mean Europe/Berlin"),
        (Task(GO, at="2001-01-01T00:00"), "is over"),
        (Task(GO, at="2100-03-28T02:30", zone="Europe/Berlin"), "next valid time is 2100-03-28"),
        (Task(GO, at="soon"), "is no time"),
        (Task(GO, at="2100-01-01", ends_at="2100-01-02"), "no start and end"),
        (
            Task(GO, cron="* * * * *", starts_at="2100-01-02", ends_at="2100-01-01"),
            "The end 2100-01-01 is before the start 2100-01-02",
        ),
        (Task(GO, cron="* * * * *", ends_at="2001-01-01"), "would never start"),
        (Task(GO, cron="* * * * *", catch_up="most"), "policy 'most'"),  # pyright: ignore[reportArgumentType]
        (Task(replace(GO, uploads=(Path("x"),)), cron="* * * * *"), "no uploads"),
        (Task(GO, cron="* * * * *", title="x" * 201), "at most 200"),
    ],
)
def test_bad_input_is_refused(task: Task, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        planned("s", "ann", task, NOW, 0.0)
    assert said in str(refused.value)


def test_a_single_task_lies_so_far_ahead() -> None:
    soon = Task(GO, at="2026-06-01T12:00:30")
    with pytest.raises(UsageError, match="less than 60 s ahead"):
        planned("s", "ann", soon, NOW, 60.0)
    assert planned("s", "ann", soon, NOW, 30.0).next_at == NOW + 30


def test_a_row_gives_its_task_back() -> None:
    task = Task(
        replace(GO, user_id="ann", thread_id="t", context={"mode": "pro"}),
        cron="0 9 * * MON",
        zone="Europe/Berlin",
        ends_at="2027-01-01",
        catch_up="once",
        title="Report",
        metadata={"a": 1},
    )
    row = planned("s", "ann", task, NOW, 60.0)

    assert task_of(row) == task
    assert (row.thread_id, row.kind, row.status) == ("t", "cron", "active")
    assert row.next_at == NOW + 7 * 86_400 - 5 * 3600  # Monday, 9 o'clock in Berlin


def test_the_first_occurrence_may_be_at_the_start_itself() -> None:
    task = replace(EVERY_MINUTE, starts_at="2100-01-01T00:00Z")
    assert first_of(task, NOW) == 4_102_444_800.0
    assert first_of(task, 4_102_444_800.0) == 4_102_444_860.0


def test_the_end_itself_is_still_inside() -> None:
    task = replace(EVERY_MINUTE, ends_at="2026-06-01T12:01")
    assert first_of(task, NOW) == NOW + 60
    assert first_of(task, NOW + 60) is None
    row = planned("s", "ann", task, NOW, None)
    assert fired(row, NOW + 3600, late=7200.0).starts == (NOW + 60,)
    assert following(row, NOW + 60) is None


def test_missed_and_late_are_told_apart() -> None:
    row = replace(planned("s", "ann", EVERY_MINUTE, NOW - 60, None), next_at=NOW)

    assert fired(row, NOW + 30, late=60.0).starts == (NOW,)
    assert fired(row, NOW + 130, late=60.0).starts == (NOW + 120,)
    missed = fired(row, NOW + 59, late=30.0)
    assert (missed.starts, missed.missed) == ((), NOW)
    assert missed.note == "missed: 1 while no server was at work"
    assert "100 or more" in fired(row, NOW + 86_459, late=30.0).note
