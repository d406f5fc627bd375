"""The outbox of webhooks: due when the run has ended, one at a time, again when it failed."""

import asyncio
import time
from dataclasses import replace

import pytest

from deerflow.errors import ConflictError, ThreadGoneError
from deerflow.storage.protocol import Delivery, Storage
from fakes.queued import begin, queue


def delivery(key: str, id: str = "d1", run_id: str = "r1") -> Delivery:
    """A webhook of a run that has not ended."""
    return Delivery(id, "ann", key, run_id, "https://x.test/hook", {"run_id": run_id, "deep": [1]})


async def test_it_waits_for_the_end_of_its_run(storage: Storage, key: str) -> None:
    await queue(storage, key, "r1")
    await storage.deliveries.add(delivery(key))
    await storage.deliveries.add(delivery(key, run_id="another"))
    assert await storage.deliveries.of_run("r1") == [delivery(key)]
    assert await storage.deliveries.claim(now=time.time(), seconds=30.0) == []
    await storage.threads.end_run("r1", status="success", outcome=None)
    await storage.threads.end_run("r1", status="success", outcome=None)

    (taken,) = await storage.deliveries.claim(now=time.time(), seconds=30.0)
    assert taken == replace(delivery(key), status="pending", attempts=1, due_at=taken.due_at)
    assert await storage.deliveries.of_run("r1") == [taken]


async def test_it_is_written_with_its_run_or_not_at_all(storage: Storage, key: str) -> None:
    await queue(storage, key, "r1", delivery=delivery(key), idempotency_key="same")
    assert await storage.deliveries.of_run("r1") == [delivery(key)]
    with pytest.raises(ConflictError):
        await queue(storage, key, "r2", delivery=delivery(key, "d2", "r2"))
    await queue(storage, key, "r3", delivery=delivery(key, "d3", "r3"), idempotency_key="same")

    assert await storage.deliveries.of_run("r2") == []
    assert await storage.deliveries.of_run("r3") == []
    await storage.queue.ask_to_stop("r1", "interrupt")
    assert [row.status for row in await storage.deliveries.of_run("r1")] == ["pending"]


async def test_a_run_that_goes_on_calls_each_address_again(storage: Storage, key: str) -> None:
    await begin(storage, key, "r1")
    other = replace(delivery(key, "d2"), url="https://y.test/hook")
    for row in (delivery(key), other):
        await storage.deliveries.add(row)
    for told in (2, 4):
        await storage.threads.end_run("r1", status="interrupted", outcome=None)
        due = await storage.deliveries.claim(now=time.time(), seconds=30.0)
        assert len(due) == 2
        await storage.deliveries.settle(due[0].delivery_id, "done")  # the other one is under way
        await storage.queue.put_back("r1")
        await storage.queue.put_back("r1")
        rows = await storage.deliveries.of_run("r1")
        assert len(rows) == told + 2
        waiting = [(row.url, row.attempts, row.payload) for row in rows if row.status == "waiting"]
        assert sorted(waiting) == [(row.url, 0, row.payload) for row in (delivery(key), other)]
        await storage.queue.claim("r1", "w-1")


async def test_one_that_comes_after_the_end_is_due_at_once(storage: Storage, key: str) -> None:
    await queue(storage, key, "r1")
    await storage.queue.ask_to_stop("r1", "interrupt")
    await storage.deliveries.add(delivery(key))

    assert len(await storage.deliveries.claim(now=1.0, seconds=30.0)) == 1


async def due(storage: Storage, key: str, *ids: str) -> None:
    """Deliveries that are due at second 10."""
    for id in ids:
        await storage.deliveries.add(replace(delivery(key, id), status="pending", due_at=10.0))


async def test_one_of_many_takes_it_for_its_time(storage: Storage, key: str) -> None:
    await due(storage, key, "d1", "d2", "d3")
    assert await storage.deliveries.claim(now=9.0, seconds=5.0) == []
    found = await asyncio.gather(
        *(storage.deliveries.claim(now=10.0, seconds=5.0, limit=2) for _ in range(4))
    )
    ids = [row.delivery_id for rows in found for row in rows]
    assert sorted(ids) == ["d1", "d2", "d3"]
    assert max(len(rows) for rows in found) <= 2
    assert await storage.deliveries.claim(now=14.0, seconds=5.0) == []
    again = await storage.deliveries.claim(now=15.0, seconds=5.0)
    assert {row.attempts for row in again} == {2}


async def test_how_an_attempt_ends(storage: Storage, key: str) -> None:
    await due(storage, key, "d1", "d2", "d3")
    await storage.deliveries.claim(now=10.0, seconds=5.0)
    await storage.deliveries.settle("d1", "done")
    await storage.deliveries.settle("d2", "failed")
    await storage.deliveries.settle("d3", "pending", due_at=12.0)
    await storage.deliveries.settle("nothing", "done")

    states = [row.status for row in await storage.deliveries.of_run("r1")]
    assert states == ["done", "failed", "pending"]
    assert await storage.deliveries.claim(now=11.0, seconds=5.0) == []
    (taken,) = await storage.deliveries.claim(now=99.0, seconds=5.0)
    assert (taken.delivery_id, taken.attempts) == ("d3", 2)


async def test_a_deleted_thread_takes_none(storage: Storage, key: str) -> None:
    await due(storage, key, "d1")
    await storage.threads.delete("ann", "t1")

    assert await storage.deliveries.claim(now=99.0, seconds=5.0) == []
    with pytest.raises(ThreadGoneError):
        await storage.deliveries.add(delivery(key))
