"""What has outlived its time: what keeps a thread, one of many removes it, the rest stays."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Literal

import pytest

from deerflow.storage.protocol import (
    ApprovalRow,
    CallKey,
    Delivery,
    Delta,
    ModelKey,
    ScheduledRun,
    ScheduleRow,
    Storage,
)
from fakes.queued import begin, queue

LATER = 1e6
"""Seconds from now, by which everything of now has outlived its time."""


async def expired(storage: Storage, **how: int) -> list[str]:
    """Keys of what has outlived its time by LATER."""
    return [row.thread_key for row in await storage.expiry.threads(time.time() + LATER, **how)]


async def finish(storage: Storage, key: str, run_id: str, status: str = "success") -> None:
    """A run from its begin to its end."""
    await begin(storage, key, run_id)
    await storage.threads.end_run(run_id, status=status, outcome=None, event=("run_ended", {}))


async def test_a_thread_lives_from_its_last_run_or_event(storage: Storage, key: str) -> None:
    await finish(storage, key, "r1")
    event = await storage.events.append(key, "r1", "goal", {})
    row = await storage.threads.by_key(key)

    assert row is not None
    assert row.updated_at < event.created_at
    assert await storage.expiry.threads(event.created_at) == []
    assert await storage.expiry.threads(event.created_at + 1) == [row]


async def unfinished(storage: Storage, key: str) -> None:
    await queue(storage, key, "r1", not_before=time.time() + 2 * LATER)


async def pinned(storage: Storage, key: str) -> None:
    await storage.threads.describe(key, {"a": 1, "deerflow_pinned": True})


async def waiting(storage: Storage, key: str) -> None:
    await finish(storage, key, "r1", "interrupted")
    row = ApprovalRow("a1", "ann", "t1", key, "r1", "", "m", 0, "delete", {})
    await storage.approvals.request(row)


async def called(storage: Storage, key: str) -> None:
    await finish(storage, key, "r1")
    await storage.deliveries.add(Delivery("d1", "ann", key, "r1", "https://x.test"))


def schedule(status: Literal["active", "paused"]) -> ScheduleRow:
    return ScheduleRow("s1", "ann", "t1", "cron", status, 5e9, 1.0, 1.0)


async def planned(storage: Storage, key: str) -> None:
    await storage.schedules.put(schedule("active"))


async def about_to_start(storage: Storage, key: str) -> None:
    row = schedule("active")
    await storage.schedules.put(row)
    entry = ScheduledRun("s1", 5e9, "r1", "t1", 1.0)
    assert await storage.schedules.advance(row, [entry], next_at=None, status="done")


KEEPS = [unfinished, pinned, waiting, called, planned, about_to_start]


@pytest.mark.parametrize("keep", KEEPS)
async def test_what_keeps_a_thread(
    storage: Storage, key: str, keep: Callable[[Storage, str], Awaitable[None]]
) -> None:
    other = (await storage.threads.ensure("bob", "t1")).thread_key  # of the same client's id
    assert await expired(storage) == [key, other]
    await keep(storage, key)

    assert await expired(storage) == [other]
    assert not await storage.expiry.remove(key, time.time() + LATER)
    assert await storage.threads.by_key(key) is not None


async def test_what_keeps_it_no_more(storage: Storage, key: str) -> None:
    await storage.threads.describe(key, {"deerflow_pinned": False})
    await storage.schedules.put(schedule("paused"))
    await finish(storage, key, "r1")
    assert await expired(storage) == [key]


async def test_one_of_many_removes_it_with_all_it_has(storage: Storage, key: str) -> None:
    sha = await storage.blobs.put("ann", key, b"bytes", "text/plain")
    await finish(storage, key, "r1")
    until = time.time() + LATER

    assert not await storage.expiry.remove(key, 1.0)
    done = await asyncio.gather(*(storage.expiry.remove(key, until) for _ in range(4)))
    assert sorted(done) == [False, False, False, True]
    assert await storage.threads.get("ann", "t1") is None
    assert await storage.threads.run("r1") is None
    assert await storage.blobs.get("ann", sha) is None
    assert await expired(storage) == []


async def test_the_oldest_come_first(storage: Storage, key: str) -> None:
    keys = [key, *[(await storage.threads.ensure("ann", f"o{n}")).thread_key for n in range(3)]]
    await finish(storage, key, "r1")
    assert await expired(storage, limit=2) == keys[1:3]
    assert (await expired(storage))[-1] == key


async def test_the_journal_of_runs_that_nobody_goes_on_with(storage: Storage, key: str) -> None:
    calls = {n: CallKey(key, f"r{n}", "", "m", 0) for n in (1, 2, 4)}
    replies = {n: ModelKey(key, f"r{n}", "", 1, "sha") for n in calls}
    for n in (1, 2, 3, 4):
        await begin(storage, key, f"r{n}")
        if n in calls:
            await storage.journal.tool_finished(calls[n], "bash", "result")
            await storage.journal.model_finished(replies[n], "{}")
            await storage.deltas.append(key, Delta(f"r{n}", "m", 0, "cut"))
        status = "success" if n == 3 else "error"
        await storage.threads.end_run(f"r{n}", status=status, outcome=None)
    seen = await storage.events.read(key)

    assert await storage.expiry.forget(1.0) == 0
    assert await storage.expiry.forget(time.time() + 1) == 6
    assert await storage.expiry.forget(time.time() + 1) == 0
    for n in calls:
        kept = n == 4
        assert (await storage.journal.tool_lookup(calls[n]) is not None) == kept
        assert (await storage.journal.model_lookup(replies[n]) is not None) == kept
        assert bool(await storage.deltas.read(f"r{n}", "m")) == kept
    assert await storage.events.read(key) == seen
