"""Schedules: an occurrence is entered once, and found until it is settled."""

import asyncio
import time
from dataclasses import replace

import pytest

from deerflow.errors import ConflictError
from deerflow.storage.protocol import ScheduledRun, ScheduleRow, Storage
from fakes.queued import queue


def row(schedule_id: str, next_at: float | None = 100.0, user_id: str = "ann") -> ScheduleRow:
    """An active cron schedule."""
    return ScheduleRow(
        schedule_id, user_id, None, "cron", "active", next_at, 1.0, 1.0, {"cron": "* * * * *"}
    )


def entry(schedule_id: str, occurrence: float, *, note: str = "") -> ScheduledRun:
    """An occurrence of it."""
    run_id = f"{schedule_id}-{occurrence}"
    return ScheduledRun(schedule_id, occurrence, run_id, "t1", occurrence + 1, note)


async def test_a_schedule_is_its_users_own(storage: Storage) -> None:
    schedules = storage.schedules
    await schedules.put(row("s1"))
    bound = replace(row("s2"), thread_id="t1", created_at=2.0, kind="once")
    await schedules.put(bound)
    await schedules.put(row("s3", user_id="bob"))

    assert await schedules.get("ann", "s1") == row("s1")
    assert await schedules.get("bob", "s1") is None
    assert await schedules.list("ann") == [bound, row("s1")]
    assert await schedules.list("ann", limit=1, offset=1) == [row("s1")]
    assert await schedules.list("ann", thread_id="t1") == [bound]
    with pytest.raises(ConflictError):
        await schedules.put(row("s1", user_id="bob"))
    assert not await schedules.delete("bob", "s1")
    assert await schedules.delete("ann", "s1")
    assert not await schedules.delete("ann", "s1")


async def test_putting_again_replaces(storage: Storage) -> None:
    await storage.schedules.put(row("s1"))
    changed = replace(row("s1", None), status="paused", updated_at=9.0, data={"x": 1})
    await storage.schedules.put(changed)

    assert await storage.schedules.get("ann", "s1") == changed


async def test_what_is_due_comes_earliest_first(storage: Storage) -> None:
    schedules = storage.schedules
    for found in (
        row("s1", 50.0),
        row("s2", 10.0, "bob"),
        row("s3", 51.0),
        row("s4", None),
        replace(row("s5", 1.0), status="paused"),
    ):
        await schedules.put(found)

    assert [due.schedule_id for due in await schedules.due(50.0)] == ["s2", "s1"]
    assert [due.schedule_id for due in await schedules.due(50.0, limit=1)] == ["s2"]
    assert await schedules.due(9.0) == []
    assert await schedules.next_due() == 10.0
    await schedules.delete("bob", "s2")
    await schedules.delete("ann", "s1")
    await schedules.delete("ann", "s3")
    assert await schedules.next_due() is None


async def test_one_of_many_enters_an_occurrence(storage: Storage) -> None:
    schedules = storage.schedules
    await schedules.put(row("s1"))

    won = await asyncio.gather(
        *(
            schedules.advance(row("s1"), [entry("s1", 100.0)], next_at=160.0, status="active")
            for _ in range(5)
        )
    )

    assert sorted(won) == [False] * 4 + [True]
    kept = await schedules.get("ann", "s1")
    assert kept is not None
    assert kept.next_at == 160.0
    assert await schedules.runs("s1") == [entry("s1", 100.0)]


async def test_a_row_that_changed_meanwhile_is_not_advanced(storage: Storage) -> None:
    schedules = storage.schedules
    await schedules.put(replace(row("s1"), status="paused"))
    await schedules.put(row("s2", 200.0))
    await schedules.put(row("s3", None))

    for stale in (row("s1"), row("s2"), row("s3"), row("s4"), row("s2", 200.0, "bob")):
        assert not await schedules.advance(
            stale, [entry(stale.schedule_id, 100.0)], next_at=1.0, status="active"
        )
    assert await schedules.unstarted() == []
    assert await schedules.advance(row("s3", None), [], next_at=None, status="done")


async def test_an_occurrence_is_found_until_it_is_settled(storage: Storage) -> None:
    schedules = storage.schedules
    await schedules.put(row("s1"))
    runs = [
        entry("s1", 100.0),
        ScheduledRun("s1", 101.0, "", "", 102.0, "skipped"),
        entry("s1", 102.0),
    ]
    await schedules.advance(row("s1"), runs, next_at=160.0, status="active")
    now = row("s1", 160.0)

    assert await schedules.unstarted() == [(now, runs[0]), (now, runs[2])]
    assert await schedules.unstarted(limit=1) == [(now, runs[0])]
    await schedules.settle("s1", 100.0, "started")
    await schedules.settle("s1", 999.0, "started")
    assert await schedules.unstarted() == [(now, runs[2])]
    # Entering it again, as a second click on "run now" in the same moment does, changes nothing.
    await schedules.advance(now, [entry("s1", 100.0)], next_at=160.0, status="active")
    assert await schedules.unstarted() == [(now, runs[2])]
    assert [found.note for found in await schedules.runs("s1")] == ["", "skipped", "started"]
    assert len(await schedules.runs("s1", limit=2)) == 2
    await schedules.delete("ann", "s1")
    assert await schedules.unstarted() == []
    assert await schedules.runs("s1") == []


async def test_history_is_bounded_but_nothing_unstarted_is_lost(storage: Storage) -> None:
    schedules = storage.schedules
    await schedules.put(row("s1"))
    old = [entry("s1", 1.0), entry("s1", 2.0, note="started")]
    new = [entry("s1", 10.0 + n, note="started") for n in range(1000)]
    await schedules.advance(row("s1"), [*old, *new], next_at=100.0, status="active")

    found = await schedules.runs("s1", limit=2000)
    assert [run.occurrence for run in found[-2:]] == [10.0, 1.0]
    assert len(found) == 1001
    assert [run for _, run in await schedules.unstarted()] == [old[0]]


async def test_unfinished_runs_of_schedules_are_counted(storage: Storage, key: str) -> None:
    schedules = storage.schedules
    await schedules.put(row("s1"))
    run = replace(entry("s1", time.time()), run_id="r1")
    await schedules.advance(row("s1"), [run], next_at=None, status="done")

    assert await schedules.unfinished() == 0
    await storage.threads.start_run(key, "r1", input={}, config={})
    assert await schedules.unfinished() == 1
    await storage.threads.end_run("r1", status="success", outcome=None)
    await storage.threads.start_run(key, "r2", input={}, config={})
    assert await schedules.unfinished() == 0


async def test_occurrences_are_found_by_their_note(storage: Storage) -> None:
    schedules = storage.schedules
    for id in ("s1", "s2"):
        await schedules.put(row(id))
    first, second = entry("s1", 5.0, note="goes"), entry("s2", 4.0, note="goes")
    entered = [first, entry("s1", 6.0, note="went"), entry("s1", 7.0)]
    assert await schedules.advance(row("s1"), entered, next_at=200.0, status="active")
    assert await schedules.advance(row("s2"), [second], next_at=300.0, status="active")

    found = await schedules.noted("goes", limit=9)
    assert [(of.schedule_id, of.next_at, run) for of, run in found] == [
        ("s2", 300.0, second),
        ("s1", 200.0, first),
    ]
    assert await schedules.noted("goes", limit=1) == found[:1]
    assert await schedules.noted("went too", limit=9) == []


async def test_what_is_waited_for(storage: Storage, key: str) -> None:
    schedules = storage.schedules
    await schedules.put(row("s1"))
    await schedules.put(row("s2"))
    entered = [entry("s1", n, note="started") for n in (1.0, 2.0)]
    entered += [entry("s1", 3.0, note="failed"), entry("s1", 4.0)]
    assert await schedules.advance(row("s1"), entered, next_at=200.0, status="active")
    assert await schedules.waiting("s1") == 1
    for run in entered[:2]:
        await queue(storage, key, run.run_id, strategy="enqueue")

    assert await schedules.waiting("s1") == 3
    assert await schedules.waiting("s2") == 0
    await storage.queue.ask_to_stop(entered[1].run_id, "interrupt")
    await schedules.settle("s1", 4.0, "started")
    assert await schedules.waiting("s1") == 1
