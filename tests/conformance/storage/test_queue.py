"""The queue of runs: order within a thread, strategies, claims."""

import asyncio
import time
from dataclasses import replace

import pytest

from deerflow.errors import ConflictError, ThreadGoneError
from deerflow.storage.owner import this_owner
from deerflow.storage.protocol import (
    Delivery,
    NewRun,
    Storage,
    ThreadRow,
)
from fakes.queued import begin, queue, ready, status, stored, types


async def test_a_run_is_submitted_whole(storage: Storage, key: str) -> None:
    metadata, later = {"graph": "lead"}, time.time() + 60.0
    found = await queue(storage, key, "r1", metadata=metadata, priority=10, not_before=later)

    run = found.run
    assert (found.created, found.ready, found.cancelled) == (True, False, ())
    assert (run.status, run.owner, run.attempt, run.cancel) == ("pending", "", 0, "")
    assert (run.input, run.config, run.metadata) == ({"task": "r1"}, {"model": "m"}, metadata)
    assert (run.not_before, run.priority, run.started_at) == (later, 10, None)
    assert await storage.threads.run("r1") == run
    assert await storage.threads.runs(key) == [run]
    assert await storage.threads.active_run(key) == run
    assert await types(storage, key) == [("r1", "run_queued")]
    assert await status(storage, key) == "busy"


async def test_a_new_thread_comes_with_its_run_or_not_at_all(storage: Storage) -> None:
    thread, run = ThreadRow.new("ann", "t1", {"a": 1}), NewRun("r1", {})
    first = await storage.queue.submit(thread, run, new=True)
    again = await storage.queue.submit(ThreadRow.new("ann", "t1"), NewRun("r2", {}), new=True)
    other = await storage.queue.submit(ThreadRow.new("bob", "t1"), NewRun("r3", {}), new=True)

    assert first is not None
    assert first.ready
    assert again is None
    assert other is not None
    found = await storage.threads.get("ann", "t1")
    assert found is not None
    assert (found.thread_key, found.metadata) == (thread.thread_key, {"a": 1})
    assert await storage.threads.run("r2") is None
    with pytest.raises(ConflictError, match="id"):
        await storage.queue.submit(ThreadRow.new("ann", "t2"), NewRun("r1", {}), new=True)
    assert await storage.threads.get("ann", "t2") is None


async def test_a_deleted_thread_takes_no_run(storage: Storage, key: str) -> None:
    thread = await storage.threads.get("ann", "t1")
    assert thread is not None
    await queue(storage, key, "r0")
    await storage.threads.delete("ann", "t1")
    with pytest.raises(ThreadGoneError):
        await storage.queue.submit(thread, NewRun("r1", {}), new=False)
    with pytest.raises(ConflictError, match="key"):
        await storage.queue.submit(thread, NewRun("r1", {}), new=True)
    assert await storage.queue.claim("r0", "w-1") is None
    assert await ready(storage) == []


async def test_the_same_key_of_a_user_is_the_same_run(storage: Storage, key: str) -> None:
    bob = (await storage.threads.ensure("bob", "t1")).thread_key
    found = await asyncio.gather(
        *(queue(storage, key, f"r{n}", idempotency_key="k") for n in range(4))
    )
    other = await queue(storage, bob, "r9", idempotency_key="k")

    assert [each.created for each in found].count(True) == 1
    assert len({each.run.run_id for each in found}) == 1
    assert {each.ready for each in found} == {True}
    assert other.created
    assert len(await storage.threads.runs(key)) == 1


async def test_the_key_is_known_before_the_thread_is_made(storage: Storage) -> None:
    found = [
        await storage.queue.submit(
            ThreadRow.new("ann", f"t{n}"), NewRun(f"r{n}", {}, idempotency_key="k"), new=True
        )
        for n in range(2)
    ]
    assert [each and (each.run.run_id, each.created) for each in found] == [
        ("r0", True),
        ("r0", False),
    ]
    assert await storage.threads.get("ann", "t1") is None


async def test_within_a_thread_nothing_overtakes(storage: Storage, key: str) -> None:
    await begin(storage, key, "r1")
    await queue(storage, key, "r2", strategy="enqueue", priority=0)
    third = await queue(storage, key, "r3", strategy="enqueue", priority=10)

    assert not third.ready
    assert await ready(storage) == []
    assert await storage.queue.next_in(key) is None
    assert await storage.queue.claim("r2", "w-1") is None
    await storage.threads.end_run("r1", status="success", outcome=None)
    assert await status(storage, key) == "busy"
    assert await ready(storage) == ["r2"]
    assert await storage.queue.claim("r3", "w-1") is None
    assert (await storage.queue.claim("r2", "w-1")) is not None
    await storage.threads.end_run("r2", status="error", outcome=None)
    following = await storage.queue.next_in(key)
    assert following is not None
    assert following.run_id == "r3"


async def test_threads_go_by_priority_and_then_by_age(storage: Storage) -> None:
    for number, priority in enumerate([0, 10, 0, 10]):
        thread = await storage.threads.ensure("ann", f"t{number}")
        await queue(storage, thread.thread_key, f"r{number}", priority=priority)

    assert await ready(storage) == ["r1", "r3", "r0", "r2"]
    assert await ready(storage, limit=2) == ["r1", "r3"]
    assert await storage.queue.depth() == {"pending": 4}


async def test_a_delayed_run_waits_and_holds_its_place(storage: Storage, key: str) -> None:
    later = time.time() + 60.0
    await storage.workers.register("w-1", this_owner(), seconds=30.0)
    await queue(storage, key, "r1", not_before=later)
    await queue(storage, key, "r2", strategy="enqueue")

    assert await ready(storage) == []
    assert await storage.queue.claim("r1", "w-1") is None
    assert await storage.queue.claim("r2", "w-1") is None
    await storage.queue.ask_to_stop("r1", "interrupt")
    assert await ready(storage) == ["r2"]
    past = (await storage.threads.ensure("ann", "t2")).thread_key
    await queue(storage, past, "r3", not_before=time.time() - 1.0)
    assert await ready(storage) == ["r2", "r3"]


async def test_an_end_before_a_delayed_run_shows_as_itself(storage: Storage, key: str) -> None:
    await begin(storage, key, "r1")
    await queue(storage, key, "r2", strategy="enqueue", not_before=time.time() + 60.0)
    await storage.threads.end_run("r1", status="interrupted", outcome=None)

    assert await status(storage, key) == "interrupted"


async def test_only_what_has_been_ready_for_long_is_looked_after(
    storage: Storage, key: str
) -> None:
    await queue(storage, key, "r1")
    assert await ready(storage, pending_for=60.0) == []
    assert await ready(storage, pending_for=0.0) == ["r1"]
    old = (await storage.threads.ensure("ann", "t2")).thread_key
    await begin(storage, old, "r2")
    await queue(storage, old, "r3", strategy="enqueue")
    since = time.time()
    await storage.threads.end_run("r2", status="success", outcome=None)
    assert await ready(storage, pending_for=60.0) == []
    async with asyncio.timeout(10):
        while await ready(storage, pending_for=0.02) != ["r1", "r3"]:
            pass
    assert time.time() - since >= 0.02


async def test_one_of_many_claims_a_run(storage: Storage, key: str) -> None:
    await queue(storage, key, "r1")
    assert await storage.queue.claim("r1", "w-1") is None  # the worker has no row
    for number in range(4):
        await storage.workers.register(f"w-{number}", this_owner(), seconds=30.0)
    found = await asyncio.gather(*(storage.queue.claim("r1", f"w-{n}") for n in range(4)))

    (run,) = [each for each in found if each is not None]
    assert (run.status, run.attempt, run.owner) == ("running", 1, f"w-{found.index(run)}")
    assert run.started_at is not None
    assert await storage.threads.run("r1") == run
    assert await storage.queue.depth() == {"running": 1}
    assert await storage.queue.claim("nothing", "w-1") is None


async def test_a_claim_whose_caller_left_is_given_back(storage: Storage, key: str) -> None:
    await storage.workers.register("w-1", this_owner(), seconds=30.0)
    await queue(storage, key, "r1")
    for _ in range(20):
        task = asyncio.create_task(storage.queue.claim("r1", "w-1"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if not task.cancelled() and task.result() is not None:  # it was too quick to be stopped
            await storage.queue.put_back("r1")

    run = await storage.queue.claim("r1", "w-1")
    assert run is not None


@pytest.mark.parametrize("running", [True, False])
async def test_reject_is_refused_while_a_run_is_unfinished(
    storage: Storage, key: str, running: bool
) -> None:
    await (begin if running else queue)(storage, key, "r1")
    with pytest.raises(ConflictError, match="active" if running else "queued"):
        await queue(storage, key, "r2")
    assert await storage.threads.run("r2") is None
    assert await types(storage, key) == [("r1", "run_queued")]


@pytest.mark.parametrize("strategy", ["interrupt", "rollback"])
async def test_a_new_run_stops_those_before_it(storage: Storage, key: str, strategy: str) -> None:
    await begin(storage, key, "r1")
    await queue(storage, key, "r2", strategy="enqueue")
    found = await queue(storage, key, "r3", strategy=strategy)

    assert not found.ready
    assert [(run.run_id, run.status, run.cancel) for run in found.cancelled] == [
        ("r1", "running", strategy),
        ("r2", "cancelled", strategy),
    ]
    assert list(found.cancelled) == [await stored(storage, "r1"), await stored(storage, "r2")]
    assert await types(storage, key) == [
        ("r1", "run_queued"),
        ("r2", "run_queued"),
        ("r1", "cancel_requested"),
        ("r2", "run_ended"),
        ("r3", "run_queued"),
    ]
    assert await status(storage, key) == "busy"
    await storage.threads.end_run("r1", status="cancelled", outcome=None)
    assert await ready(storage) == ([] if strategy == "rollback" else ["r3"])
    for run in await storage.queue.to_take_back():
        await storage.queue.remove(run.run_id)
    assert await ready(storage) == ["r3"]


async def test_runs_of_a_user_are_listed_across_threads(storage: Storage, key: str) -> None:
    second = (await storage.threads.ensure("ann", "t2")).thread_key
    bob = (await storage.threads.ensure("bob", "t1")).thread_key
    runs = [await queue(storage, where, f"r{n}") for n, where in enumerate([key, second, bob])]
    await storage.queue.ask_to_stop("r0", "interrupt")

    found = await storage.queue.of_user("ann")
    assert [(row.thread_id, run.run_id) for row, run in found] == [("t2", "r1"), ("t1", "r0")]
    assert found[0] == (await storage.threads.by_key(second), runs[1].run)
    ended = await storage.queue.of_user("ann", status="cancelled")
    assert [run.run_id for _, run in ended] == ["r0"]
    before = await storage.queue.of_user("ann", before=runs[1].run.created_at)
    assert [run.run_id for _, run in before] == ["r0"]
    assert len(await storage.queue.of_user("ann", limit=1)) == 1


async def test_a_run_that_a_dead_process_left_does_not_stop_the_queue(dead: Storage) -> None:
    key = (await dead.threads.ensure("ann", "t1")).thread_key
    await dead.threads.start_run(key, "r1", input={}, config={})
    found = await queue(dead, key, "r2", strategy="reject")

    assert found.ready
    assert (await stored(dead, "r1")).status == "error"
    assert await types(dead, key) == [("r1", "run_ended"), ("r2", "run_queued")]


async def test_a_worker_is_told_which_of_its_runs_are_to_stop(storage: Storage, key: str) -> None:
    await storage.workers.register("w-1", "p", seconds=60)
    await queue(storage, key, "r1")
    assert await storage.queue.claim("r1", "w-1") is not None
    assert await storage.queue.to_stop("w-1") == []

    await storage.queue.ask_to_stop("r1", "interrupt")
    assert await storage.queue.to_stop("w-1") == ["r1"]
    assert await storage.queue.to_stop("w-2") == []
    await storage.threads.end_run("r1", status="cancelled", outcome=None)
    assert await storage.queue.to_stop("w-1") == []


async def test_the_queue_goes_with_its_thread(storage: Storage, key: str) -> None:
    await queue(storage, key, "r1", idempotency_key="k")
    await storage.deliveries.add(Delivery("d1", "ann", key, "r1", "https://x.test"))
    await storage.threads.delete("ann", "t1")

    assert await ready(storage) == []
    assert await storage.queue.depth() == {}
    assert await storage.deliveries.of_run("r1") == []
    again = await storage.threads.ensure("ann", "t1")
    assert (await queue(storage, again.thread_key, "r2", idempotency_key="k")).created


async def test_documents_are_copies(storage: Storage, key: str) -> None:
    metadata = {"a": [1]}
    found = await queue(storage, key, "r1", metadata=metadata)
    metadata["a"].append(2)

    assert replace(await stored(storage, "r1")) == found.run
    assert found.run.metadata == {"a": [1]}
