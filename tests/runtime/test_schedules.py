"""Scheduled tasks: planned, started, missed, stopped; each for its owner alone."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from deerflow.config.storage import SchedulerConfig
from deerflow.errors import NotFoundError, StorageError, UsageError
from deerflow.runtime.passing import GONE, remove_ended
from deerflow.runtime.planning import Task, planned, task_of
from deerflow.runtime.request import RunRequest
from deerflow.runtime.schedules import MOST_IN_THREAD, MOST_WAITING
from deerflow.storage.inmemory import InMemoryStorage
from deerflow.storage.protocol import Delivery, ScheduleRow, Storage
from deerflow.storage.sql.schema import prepare
from deerflow.storage.sql.storage import SqliteStorage
from fakes.schedulers import ON, Rows, scheduler

GO = RunRequest("Go.")
EVERY_MINUTE = Task(GO, cron="* * * * *")
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC).timestamp()


@pytest.fixture(params=["memory", "sqlite"])
async def storage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Storage]:
    if request.param == "memory":
        found: Storage = InMemoryStorage()
    else:
        prepare(tmp_path / "test.db")
        found = SqliteStorage(tmp_path / "test.db")
    yield found
    await found.close()


async def put(storage: Storage, task: Task, *, next_at: float, schedule_id: str = "s") -> None:
    """Ann's task, planned long ago and due at a time."""
    row = planned(schedule_id, "ann", task, next_at - 120, None)
    await storage.schedules.put(replace(row, next_at=next_at))


async def row_of(storage: Storage, schedule_id: str = "s") -> ScheduleRow:
    found = await storage.schedules.get("ann", schedule_id)
    assert found is not None
    return found


async def notes(storage: Storage, schedule_id: str = "s") -> dict[float, str]:
    """What became of each occurrence, by its seconds from NOON."""
    runs = await storage.schedules.runs(schedule_id, limit=500)
    return {run.occurrence - NOON: run.note for run in reversed(runs)}


# --- starting ---


async def test_what_is_due_starts_once_and_moves_on(storage: Storage) -> None:
    found, rows = scheduler(storage)
    await put(storage, EVERY_MINUTE, next_at=NOON)

    await found.tick(NOON - 1)
    assert rows.asked == []
    await found.tick(NOON + 3)
    await found.tick(NOON + 4)

    assert len(rows.asked) == 1
    assert (await row_of(storage)).next_at == NOON + 60
    [(entry, run)] = await found.history("ann", "s")
    assert (entry.occurrence, entry.note) == (NOON, "started")
    assert run is not None
    assert run.input["task"] == "Go."
    assert run.metadata == {"schedule_id": "s", "scheduled_for": "2026-06-01T12:00:00+00:00"}
    thread = await storage.threads.get("ann", entry.thread_id)
    assert thread is not None
    assert thread.thread_key == run.thread_key


async def test_each_run_has_a_thread_of_its_own_or_all_have_the_given_one(storage: Storage) -> None:
    found, _ = scheduler(storage)
    await storage.threads.ensure("ann", "t1")
    await put(storage, EVERY_MINUTE, next_at=NOON)
    bound = replace(EVERY_MINUTE, request=replace(GO, thread_id="t1"))
    await put(storage, bound, next_at=NOON, schedule_id="b")

    for minute in range(2):
        await found.tick(NOON + 60 * minute)

    assert len({run.thread_id for run in await storage.schedules.runs("s")}) == 2
    assert {run.thread_id for run in await storage.schedules.runs("b")} == {"t1"}
    thread = await storage.threads.get("ann", "t1")
    assert thread is not None
    runs = await storage.threads.runs(thread.thread_key)
    assert [run.status for run in runs] == ["pending", "pending"], "they wait in order"


async def test_a_single_task_starts_late_rather_than_never(storage: Storage) -> None:
    found, rows = scheduler(storage)
    await put(storage, Task(GO, at="2026-06-01T12:00"), next_at=NOON)

    await found.tick(NOON + 86_400)

    assert len(rows.asked) == 1
    assert ((await row_of(storage)).status, (await row_of(storage)).next_at) == ("done", None)
    await found.tick(NOON + 86_401)
    assert len(rows.asked) == 1


async def test_after_the_end_it_is_done(storage: Storage) -> None:
    found, _ = scheduler(storage)
    task = replace(EVERY_MINUTE, ends_at="2026-06-01T12:01:30")
    await put(storage, task, next_at=NOON)

    for seconds in (1, 61, 121):
        await found.tick(NOON + seconds)

    assert await notes(storage) == {0: "started", 60: "started"}
    assert (await row_of(storage)).status == "done"


async def test_only_so_many_run_at_once_and_the_rest_waits_its_turn(storage: Storage) -> None:
    found, rows = scheduler(storage, ON.model_copy(update={"max_concurrent_runs": 2}))
    for name in "abcd":
        await put(storage, EVERY_MINUTE, next_at=NOON, schedule_id=name)

    await found.tick(NOON)
    await found.tick(NOON + 1)
    assert len(rows.asked) == 2
    assert len(await storage.schedules.unstarted()) == 2
    ended = rows.asked[0].run_id or ""
    await storage.queue.claim(ended, "w-1")
    await storage.threads.end_run(ended, status="success", outcome=None)
    await found.tick(NOON + 2)
    assert len(rows.asked) == 3


async def test_what_can_never_start_does_not_pile_up(storage: Storage) -> None:
    found, _ = scheduler(storage, ON.model_copy(update={"max_concurrent_runs": 1}))
    await put(storage, EVERY_MINUTE, next_at=NOON, schedule_id="first")
    await found.tick(NOON)
    await found.pause("ann", "first")
    await put(storage, EVERY_MINUTE, next_at=NOON)

    for minute in range(MOST_WAITING + 3):
        await found.tick(NOON + 60 * minute)

    found_notes = list((await notes(storage)).values())
    assert found_notes[:MOST_WAITING] == [""] * MOST_WAITING
    assert found_notes[MOST_WAITING:] == [f"left out: {MOST_WAITING} earlier ones wait"] * 3


async def test_a_thread_that_is_slower_than_its_task_is_not_filled_for_ever(
    storage: Storage,
) -> None:
    found, rows = scheduler(storage)
    await storage.threads.ensure("ann", "t")
    await put(storage, replace(EVERY_MINUTE, request=replace(GO, thread_id="t")), next_at=NOON)
    for minute in range(MOST_IN_THREAD + 3):
        await found.tick(NOON + 60 * minute)

    left_out = f"left out: {MOST_IN_THREAD} earlier ones wait"
    assert list((await notes(storage)).values()) == ["started"] * MOST_IN_THREAD + [left_out] * 3
    assert len(rows.asked) == MOST_IN_THREAD
    await storage.queue.ask_to_stop(rows.asked[0].run_id or "", "interrupt")
    await found.tick(NOON + 60 * (MOST_IN_THREAD + 3))
    assert list((await notes(storage)).values())[-1] == "started"


async def test_a_thread_that_is_not_kept_goes_with_its_run(storage: Storage) -> None:
    found, _ = scheduler(storage)
    await put(storage, replace(EVERY_MINUTE, keep=False), next_at=NOON)
    await put(storage, replace(EVERY_MINUTE), next_at=NOON, schedule_id="kept")
    await found.tick(NOON)
    (goes,) = await storage.schedules.runs("s")
    (stays,) = await storage.schedules.runs("kept")
    thread = await storage.threads.get("ann", goes.thread_id)
    assert thread is not None
    call = Delivery("d", "ann", thread.thread_key, goes.run_id, "https://x.test")
    await storage.deliveries.add(call)

    async def there() -> bool:
        await remove_ended(storage, Rows(storage), linger=0.0)
        return await storage.threads.get("ann", goes.thread_id) is not None

    assert await there(), "its run has not ended"
    for entry in (goes, stays):
        await storage.queue.ask_to_stop(entry.run_id, "interrupt")
    assert await there(), "its webhook is still to be called"
    await storage.deliveries.settle("d", "done")
    await found.tick(NOON + 1)
    assert await storage.threads.get("ann", goes.thread_id) is not None, "readers see the end"
    assert not await there()
    assert not await there()
    assert await notes(storage) == {0: GONE}
    assert await storage.threads.get("ann", stays.thread_id) is not None
    assert await notes(storage, "kept") == {0: "started"}


async def test_what_a_dead_process_had_entered_is_started_under_the_same_id(
    storage: Storage,
) -> None:
    found, rows = scheduler(storage)
    await put(storage, EVERY_MINUTE, next_at=NOON)
    rows.failure = StorageError("The disk is full.")
    with pytest.raises(StorageError):
        await found.tick(NOON)
    rows.failure = None

    await found.tick(NOON + 1)
    await found.tick(NOON + 2)

    assert len({options.run_id for options in rows.asked}) == 1
    assert await notes(storage) == {0: "started"}
    assert len(await storage.queue.of_user("ann")) == 1


# --- after an absence ---


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("skip", {3600: "missed: 5 while no server was at work"}),
        ("once", {3600: "started"}),
        ("all", {3600 - 900 * n: "started" for n in range(5)}),
    ],
)
async def test_catching_up(storage: Storage, policy: Any, expected: dict[float, str]) -> None:
    found, _ = scheduler(storage, ON.model_copy(update={"max_concurrent_runs": 50}))
    await put(storage, Task(GO, cron="*/15 * * * *", catch_up=policy), next_at=NOON)

    await found.tick(NOON + 3600 + 300)

    assert await notes(storage) == expected
    assert (await row_of(storage)).next_at == NOON + 3600 + 900


async def test_a_short_absence_is_none(storage: Storage) -> None:
    found, _ = scheduler(storage)
    await put(storage, EVERY_MINUTE, next_at=NOON)
    await found.tick(NOON + 110)

    assert await notes(storage) == {60: "started"}


async def test_a_long_absence_starts_no_more_than_a_hundred(storage: Storage) -> None:
    found, _ = scheduler(storage)
    await put(storage, replace(EVERY_MINUTE, catch_up="all"), next_at=NOON)
    await found.tick(NOON + 86_400)

    history = await storage.schedules.runs("s", limit=500)
    assert len(history) == 100
    assert history[0].occurrence == NOON + 86_400


# --- what goes wrong at the start ---


async def test_a_run_that_is_refused_is_noted_and_the_next_one_is_tried(storage: Storage) -> None:
    found, rows = scheduler(storage)
    await put(storage, EVERY_MINUTE, next_at=NOON)
    rows.failure = UsageError("There is no model m.")
    await found.tick(NOON)
    rows.failure = None
    await found.tick(NOON + 60)

    assert await notes(storage) == {0: "failed: There is no model m.", 60: "started"}


async def test_a_task_of_a_deleted_thread_is_paused(storage: Storage) -> None:
    found, rows = scheduler(storage)
    await storage.threads.ensure("ann", "t1")
    task = replace(EVERY_MINUTE, request=replace(GO, thread_id="t1"))
    await put(storage, task, next_at=NOON)
    await storage.threads.delete("ann", "t1")

    await found.tick(NOON)

    assert rows.asked == []
    assert (await row_of(storage)).status == "paused"
    assert "There is no thread 't1' here." in (await notes(storage))[0]
    assert await storage.threads.get("ann", "t1") is None


async def test_a_zone_that_this_machine_does_not_know_stops_that_task_alone(
    storage: Storage,
) -> None:
    found, rows = scheduler(storage)
    await put(storage, EVERY_MINUTE, next_at=NOON)
    broken = await row_of(storage)
    await storage.schedules.put(replace(broken, data={**broken.data, "zone": "Mars/Olympus"}))
    await put(storage, EVERY_MINUTE, next_at=NOON, schedule_id="fine")

    await found.tick(NOON)

    assert (await row_of(storage)).status == "paused"
    assert len(rows.asked) == 1


# --- what users do ---


async def test_a_task_is_created_changed_and_removed(storage: Storage) -> None:
    found, _ = scheduler(storage)
    row = await found.create("ann", Task(GO, cron=" 0 9 * *  MON", title="Report", data={"x": 1}))

    assert (row.kind, row.status) == ("cron", "active")
    assert row.next_at is not None
    assert row.next_at > time.time()
    assert await found.get("ann", row.schedule_id) == row
    assert task_of(row) == Task(
        replace(GO, user_id="ann"), cron="0 9 * * MON", title="Report", data={"x": 1}
    )
    renamed = await found.edit("ann", row.schedule_id, title="Weekly")
    assert (renamed.next_at, renamed.created_at) == (row.next_at, row.created_at)
    moved = await found.edit("ann", row.schedule_id, cron="0 8 * * MON")
    assert moved.next_at is not None
    assert abs(moved.next_at - row.next_at) in (3600, 7 * 86_400 - 3600)
    assert await found.list("ann") == [moved]
    await found.delete("ann", row.schedule_id)
    assert await found.list("ann") == []


async def test_an_edit_keeps_what_is_due_just_now(storage: Storage) -> None:
    found, rows = scheduler(storage)
    await put(storage, EVERY_MINUTE, next_at=NOON)
    await found.edit("ann", "s", title="New name")
    await found.tick(NOON)

    assert len(rows.asked) == 1


async def test_a_done_task_can_be_planned_anew(storage: Storage) -> None:
    found, _ = scheduler(storage)
    await put(storage, Task(GO, at="2026-06-01T12:00"), next_at=NOON)
    await found.tick(NOON)

    row = await found.edit("ann", "s", at="2100-01-01T00:00Z")
    assert (row.status, row.next_at) == ("active", 4_102_444_800.0)
    with pytest.raises(UsageError, match="is over"):
        await found.edit("ann", "s", at="2001-01-01T00:00Z")


async def test_paused_means_nothing_starts_and_nothing_is_made_up_for(storage: Storage) -> None:
    found, rows = scheduler(storage)
    await put(storage, EVERY_MINUTE, next_at=NOON)

    paused = await found.pause("ann", "s")
    assert (paused.status, paused.next_at) == ("paused", None)
    assert await found.pause("ann", "s") == paused
    assert (await found.edit("ann", "s", title="x")).status == "paused"
    await found.tick(NOON + 60)
    assert rows.asked == []
    resumed = await found.resume("ann", "s")
    assert resumed.next_at is not None
    assert resumed.next_at > time.time()
    assert await found.resume("ann", "s") == resumed
    await put(storage, Task(GO, at="2001-06-01T12:00"), next_at=NOON, schedule_id="old")
    await found.pause("ann", "old")
    with pytest.raises(UsageError, match="No occurrence is left"):
        await found.resume("ann", "old")


async def test_run_now_goes_beside_the_plan(storage: Storage) -> None:
    found, rows = scheduler(storage, ON.model_copy(update={"max_concurrent_runs": 1}))
    await put(storage, EVERY_MINUTE, next_at=4_000_000_000.0)

    entries = [await found.trigger("ann", "s") for _ in range(2)]
    assert [options.run_id for options in rows.asked] == list(
        dict.fromkeys(entry.run_id for entry in entries)
    )
    assert (await row_of(storage)).next_at == 4_000_000_000.0
    await found.pause("ann", "s")
    await found.trigger("ann", "s")
    assert (await row_of(storage)).status == "paused"
    rows.failure = UsageError("There is no model m.")
    with pytest.raises(UsageError, match="no model"):
        await found.trigger("ann", "s")
    assert "failed: There is no model m." in (await notes(storage)).values()


async def test_a_task_is_its_owners_alone(storage: Storage) -> None:
    found, _ = scheduler(storage)
    await put(storage, EVERY_MINUTE, next_at=NOON)
    await storage.threads.ensure("ann", "t1")

    for call in (
        found.get("bob", "s"),
        found.edit("bob", "s", title="mine"),
        found.pause("bob", "s"),
        found.resume("bob", "s"),
        found.trigger("bob", "s"),
        found.delete("bob", "s"),
        found.history("bob", "s"),
        found.get("ann", "unknown"),
        found.create("bob", Task(replace(GO, thread_id="t1"), cron="* * * * *")),
        found.edit("ann", "s", request=replace(GO, thread_id="nowhere")),
    ):
        with pytest.raises(NotFoundError):
            await call
    assert await found.list("bob") == []
    row = await found.create("bob", Task(replace(GO, user_id="ann"), cron="* * * * *"))
    assert task_of(row).request.user_id == "bob"


async def test_nothing_is_planned_or_started_while_schedules_are_off(storage: Storage) -> None:
    found, rows = scheduler(storage, SchedulerConfig())
    await put(storage, EVERY_MINUTE, next_at=NOON)

    for call in (
        found.create("ann", EVERY_MINUTE),
        found.edit("ann", "s", title="x"),
        found.resume("ann", "s"),
        found.trigger("ann", "s"),
    ):
        with pytest.raises(UsageError, match="scheduler.enabled: true"):
            await call
    await found.tick(NOON)
    assert rows.asked == []
    assert len(await found.list("ann")) == 1
    assert await found.history("ann", "s") == []
    assert (await found.pause("ann", "s")).status == "paused"
    await found.delete("ann", "s")
