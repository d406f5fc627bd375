"""Runs of the queue that are stopped, put back or removed."""

import asyncio

import pytest

from deerflow.errors import ConflictError
from deerflow.storage.protocol import (
    CallKey,
    Delta,
    Storage,
)
from fakes.queued import begin, queue, ready, status, stored


async def test_a_pending_run_ends_at_once_when_it_is_to_stop(storage: Storage, key: str) -> None:
    await queue(storage, key, "r1")
    run = await storage.queue.ask_to_stop("r1", "rollback")

    assert run is not None
    assert (run.status, run.cancel) == ("cancelled", "rollback")
    assert run.ended_at is not None
    last = (await storage.events.read(key))[-1]
    assert (last.type, last.payload["status"]) == ("run_ended", "cancelled")
    assert set(last.payload) == {"status", "outcome", "usage", "error", "artifacts", "at"}
    assert await status(storage, key) == "idle"


async def test_a_thread_stays_busy_when_a_run_behind_the_running_one_is_stopped(
    storage: Storage, key: str
) -> None:
    await begin(storage, key, "r1")
    await queue(storage, key, "r2", strategy="enqueue")
    await storage.queue.ask_to_stop("r2", "interrupt")

    assert await status(storage, key) == "busy"


async def test_the_first_wish_counts_but_rollback_is_stronger(storage: Storage, key: str) -> None:
    await begin(storage, key, "r1")
    wishes = [
        await storage.queue.ask_to_stop("r1", action)
        for action in ("interrupt", "interrupt", "rollback", "interrupt")
    ]
    assert [run and run.cancel for run in wishes] == [
        "interrupt",
        "interrupt",
        "rollback",
        "rollback",
    ]
    events = await storage.events.read(key)
    assert [e.payload for e in events if e.type == "cancel_requested"] == [
        {"action": "interrupt"},
        {"action": "rollback"},
    ]
    await storage.threads.end_run("r1", status="success", outcome=None)
    ended = await stored(storage, "r1")
    assert await storage.queue.ask_to_stop("r1", "interrupt") == ended
    assert await storage.queue.ask_to_stop("nothing", "interrupt") is None


async def test_a_worker_hands_its_run_over(storage: Storage, key: str) -> None:
    await begin(storage, key, "r1")
    await queue(storage, key, "r2", strategy="enqueue")
    run = await storage.queue.put_back("r1")

    assert run is not None
    assert (run.status, run.owner, run.attempt) == ("pending", "", 1)
    assert await ready(storage) == ["r1"]
    again = await storage.queue.claim("r1", "w-1")
    assert again is not None
    assert (again.attempt, again.started_at) == (2, run.started_at)


@pytest.mark.parametrize("ended", ["interrupted", "error", "cancelled"])
async def test_an_ended_run_goes_on(storage: Storage, key: str, ended: str) -> None:
    await begin(storage, key, "r1")
    await storage.queue.ask_to_stop("r1", "interrupt")
    await storage.threads.end_run("r1", status=ended, outcome={"kind": "x"}, error={"code": "x"})
    run = await storage.queue.put_back("r1")

    assert run is not None
    assert (run.status, run.cancel, run.ended_at) == ("pending", "", None)
    assert (run.outcome, run.error) == (None, None)
    assert await storage.queue.put_back("r1") == run
    assert await status(storage, key) == "busy"
    assert await ready(storage) == ["r1"]


async def test_what_is_to_be_taken_back_holds_the_thread_up(storage: Storage, key: str) -> None:
    await begin(storage, key, "r1")
    await queue(storage, key, "r2", strategy="enqueue")
    await storage.queue.ask_to_stop("r1", "rollback")
    assert await storage.queue.to_take_back() == []
    await storage.threads.end_run("r1", status="cancelled", outcome=None)

    assert await storage.queue.to_take_back() == [await stored(storage, "r1")]
    assert await storage.queue.to_take_back(ended_for=60.0) == []
    assert await storage.queue.next_in(key) is None
    assert await storage.queue.claim("r2", "w-1") is None
    await storage.queue.remove("r1")
    assert await storage.queue.to_take_back() == []
    assert await ready(storage) == ["r2"]


async def test_a_run_that_ended_before_it_was_stopped_is_not_taken_back(
    storage: Storage, key: str
) -> None:
    await begin(storage, key, "r1")
    await queue(storage, key, "r2", strategy="enqueue")
    await storage.queue.ask_to_stop("r1", "rollback")
    await storage.threads.end_run("r1", status="success", outcome=None)

    assert await storage.queue.to_take_back() == []
    assert await ready(storage) == ["r2"]


async def test_what_is_not_put_back(storage: Storage, key: str) -> None:
    await begin(storage, key, "r1")
    await storage.threads.end_run("r1", status="interrupted", outcome=None)
    await queue(storage, key, "r2")
    assert await storage.queue.put_back("r1") is None
    await storage.queue.claim("r2", "w-1")
    await storage.threads.end_run("r2", status="success", outcome=None)
    assert await storage.queue.put_back("r2") is None
    assert await storage.queue.put_back("nothing") is None
    assert (await stored(storage, "r1")).status == "interrupted"
    await storage.threads.start_run(key, "r3", input={}, config={})
    assert await storage.queue.put_back("r3") is None  # this process executes it itself
    assert (await stored(storage, "r3")).status == "running"


async def test_a_run_is_removed_with_all_it_wrote_but_its_numbers(
    storage: Storage, key: str
) -> None:
    call = CallKey(key, "r1", "", "m", 0)
    await begin(storage, key, "r1")
    with pytest.raises(ConflictError, match="ended"):
        await storage.queue.remove("r1")
    await storage.deltas.append(key, Delta("r1", "m", 0, "text"))
    await storage.journal.tool_started(call, "bash")
    await storage.threads.end_run("r1", status="error", outcome=None, event=("run_ended", {}))
    await queue(storage, key, "r2")
    await storage.queue.remove("r1")
    await storage.queue.remove("r1")

    assert await storage.threads.run("r1") is None
    assert [(e.seq, e.run_id) for e in await storage.events.read(key)] == [(3, "r2")]
    assert await storage.deltas.read("r1", "m") == []
    assert await storage.journal.tool_lookup(call) is None
    assert (await storage.events.append(key, "r2", "message", {})).seq == 4
    assert [e.seq for e in await storage.events.read(key, after=3)] == [4]


async def test_numbers_of_a_removed_end_are_not_used_again(storage: Storage, key: str) -> None:
    await queue(storage, key, "r1")
    await storage.queue.ask_to_stop("r1", "interrupt")
    await storage.queue.remove("r1")

    assert (await storage.events.append(key, "r2", "message", {})).seq == 3
    row = await storage.threads.by_key(key)
    assert row is not None
    assert row.last_seq == 3


async def test_followers_pass_the_gap_of_a_removed_run(storage: Storage, key: str) -> None:
    follower = storage.events.follow(key)
    await queue(storage, key, "r1")
    first = await anext(follower)
    await storage.queue.ask_to_stop("r1", "interrupt")
    await storage.queue.remove("r1")
    await queue(storage, key, "r2")
    late = storage.events.follow(key)

    async with asyncio.timeout(10):
        seen = [first.seq, (await anext(follower)).seq]
        while seen[-1] < 3:  # the end of the first run, when it was heard in time
            seen.append((await anext(follower)).seq)
        assert (seen[0], seen[-1]) == (1, 3)
        assert (await anext(late)).seq == 3
        await storage.events.append(key, "r2", "message", {})
        assert [(await anext(each)).seq for each in (follower, late)] == [4, 4]


async def test_a_stopped_run_that_a_dead_process_left_has_ended(dead: Storage) -> None:
    key = (await dead.threads.ensure("ann", "t1")).thread_key
    await dead.threads.start_run(key, "r1", input={}, config={})
    run = await dead.queue.ask_to_stop("r1", "interrupt")

    assert run is not None
    assert run.status == "cancelled"
