"""Workers: leases by the database's clock, one heir, no late writes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from deerflow.errors import ConflictError, LeaseLostError
from deerflow.storage.owner import this_owner
from deerflow.storage.protocol import (
    BatchRow,
    CallKey,
    Delta,
    ModelKey,
    QueuedExchange,
    Storage,
)
from fakes.queued import DEAD, EXPIRED, begin, queue


async def names(storage: Storage) -> tuple[list[str], list[str]]:
    """Ids of the living and the dead."""
    living, dead = await storage.workers.living(), await storage.workers.dead()
    return [row.worker_id for row in living], [row.worker_id for row in dead]


async def test_a_lease_holds_for_its_time(storage: Storage) -> None:
    row = await storage.workers.register("w-1", this_owner(), seconds=30.0)
    late = await storage.workers.register("w-2", "1:1:elsewhere", seconds=EXPIRED)

    assert (row.worker_id, row.process) == ("w-1", this_owner())
    assert row.expires_at - row.started_at == pytest.approx(30.0, abs=1.0)
    assert late.expires_at < late.started_at
    assert await names(storage) == (["w-1"], ["w-2"])


async def test_a_beat_renews_even_a_lease_that_nobody_took(storage: Storage) -> None:
    await storage.workers.register("w-1", "1:1:elsewhere", seconds=EXPIRED)

    assert await storage.workers.beat("w-1", seconds=30.0)
    assert await names(storage) == (["w-1"], [])
    assert not await storage.workers.beat("w-9", seconds=30.0)


async def test_a_worker_of_a_process_that_is_gone_is_dead_before_its_lease_ends(
    storage: Storage,
) -> None:
    place = this_owner().rpartition(":")[2]
    await storage.workers.register("w-1", f"999999999:1:{place}", seconds=30.0)
    await storage.workers.register("w-2", DEAD, seconds=30.0)

    dead = await storage.workers.dead()
    assert [row.worker_id for row in dead] == ["w-1"]
    assert await storage.workers.take_over("w-1") == []
    assert await storage.workers.take_over("w-2") is None


async def test_one_of_many_takes_over_and_the_runs_wait_again(storage: Storage, key: str) -> None:
    await begin(storage, key, "r1", seconds=EXPIRED)
    won = await asyncio.gather(*(storage.workers.take_over("w-1") for _ in range(5)))

    (runs,) = [found for found in won if found is not None]
    (run,) = runs
    assert (run.run_id, run.status, run.owner, run.attempt) == ("r1", "pending", "", 1)
    assert await storage.threads.run("r1") == run
    assert [row.run_id for row in await storage.queue.ready()] == ["r1"]
    assert await names(storage) == ([], [])
    assert not await storage.workers.beat("w-1", seconds=30.0)


async def test_nobody_takes_over_a_living_worker_and_it_may_leave(
    storage: Storage, key: str
) -> None:
    await begin(storage, key, "r1")

    assert await storage.workers.take_over("w-1") is None
    assert await storage.workers.take_over("w-9") is None
    left = await storage.workers.retire("w-1")
    assert [(run.run_id, run.status, run.owner) for run in left] == [("r1", "pending", "")]
    assert await storage.workers.retire("w-1") == []


async def test_ended_runs_stay_with_nobody(storage: Storage, key: str) -> None:
    await begin(storage, key, "r1")
    await storage.threads.end_run("r1", status="success", outcome=None)

    assert await storage.workers.retire("w-1") == []
    run = await storage.threads.run("r1")
    assert run is not None
    assert run.status == "success"


def writes(storage: Storage, key: str) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Every kind of write of a step."""
    call = CallKey(key, "r1", "", "m", 0)
    blob = b"x"
    return {
        "event": lambda: storage.events.append(key, "r1", "message", {}),
        "delta": lambda: storage.deltas.append(key, Delta("r1", "m", 0, "text")),
        "started": lambda: storage.journal.tool_started(call, "bash"),
        "finished": lambda: storage.journal.tool_finished(call, "bash", "{}"),
        "reply": lambda: storage.journal.model_finished(ModelKey(key, "r1", "", 1, "0"), "{}"),
        "blob": lambda: storage.blobs.put("ann", key, blob, "text/plain"),
        "update": lambda: storage.threads.update(key, title="late"),
        "batch": lambda: storage.batches.create(BatchRow("b1", "ann", key, "r1", 1), ["0"]),
        "memory": lambda: storage.memory_queue.enqueue(
            QueuedExchange("e1", "ann", "t1", key, {}, 1.0), debounce=1.0, ceiling=2.0
        ),
        "end": lambda: storage.threads.end_run("r1", status="success", outcome=None),
    }


@pytest.mark.parametrize("kind", writes(None, ""))  # pyright: ignore[reportArgumentType]
async def test_no_write_of_a_replaced_worker_lands(storage: Storage, key: str, kind: str) -> None:
    await begin(storage, key, "r1", seconds=EXPIRED)
    storage.workers.fence(key, "w-1")
    await storage.events.append(key, "r1", "message", {"in": "time"})
    await storage.workers.take_over("w-1")
    before = await storage.threads.get("ann", "t1"), await storage.threads.run("r1")

    with pytest.raises(LeaseLostError):
        await writes(storage, key)[kind]()
    assert (await storage.threads.get("ann", "t1"), await storage.threads.run("r1")) == before
    assert [e.payload for e in await storage.events.read(key, after=1)] == [{"in": "time"}]
    assert await storage.deltas.read("r1", "m") == []


@pytest.mark.parametrize("kind", writes(None, ""))  # pyright: ignore[reportArgumentType]
async def test_writes_of_a_worker_with_its_place_land(
    storage: Storage, key: str, kind: str
) -> None:
    await begin(storage, key, "r1")
    storage.workers.fence(key, "w-1")
    await writes(storage, key)[kind]()
    await storage.flush()


async def test_deltas_of_a_replaced_worker_stay_for_its_heir(storage: Storage, key: str) -> None:
    await begin(storage, key, "r1")
    storage.workers.fence(key, "w-1")
    await storage.deltas.append(key, Delta("r1", "m", 0, "text"))
    await storage.workers.retire("w-1")

    with pytest.raises(LeaseLostError):
        await storage.deltas.finish("r1", "m")
    assert await storage.deltas.read("r1", "m") == [Delta("r1", "m", 0, "text")]


async def test_a_refused_write_that_nobody_awaits_is_no_debt_of_the_heir(
    storage: Storage, key: str
) -> None:
    await begin(storage, key, "r1")
    storage.workers.fence(key, "w-1")
    await storage.workers.retire("w-1")
    storage.events.append(key, "r1", "message", {"by": "w-1"})
    await storage.flush()
    storage.workers.fence(key, None)
    await storage.workers.register("w-2", this_owner(), seconds=30.0)
    await storage.queue.claim("r1", "w-2")
    storage.workers.fence(key, "w-2")
    await storage.events.append(key, "r1", "message", {"by": "w-2"})

    assert [e.payload for e in await storage.events.read(key, after=1)] == [{"by": "w-2"}]


async def test_neighbours_of_a_refused_write_land(storage: Storage, key: str) -> None:
    other = (await storage.threads.ensure("ann", "t2")).thread_key
    await begin(storage, key, "r1")
    storage.workers.fence(key, "w-1")
    writes = [storage.events.append(other, "r2", "message", {"n": 1})]
    leaving = asyncio.ensure_future(storage.workers.retire("w-1"))
    await asyncio.sleep(0)
    late = storage.events.append(key, "r1", "message", {})  # in the same transaction
    writes.append(storage.events.append(other, "r2", "message", {"n": 2}))

    with pytest.raises(LeaseLostError):
        await late
    assert [run.run_id for run in await leaving] == ["r1"]
    assert [(await write).seq for write in writes] == [1, 2]


async def test_clients_may_write_into_a_thread_whose_worker_is_gone(
    storage: Storage, key: str
) -> None:
    await begin(storage, key, "r1")
    storage.workers.fence(key, "w-1")
    await storage.workers.retire("w-1")

    assert (await storage.threads.describe(key, {"a": 1})).metadata == {"a": 1}
    assert (await queue(storage, key, "r2", strategy="enqueue")).created
    run = await storage.queue.ask_to_stop("r1", "interrupt")
    assert run is not None
    assert run.status == "cancelled"
    assert await storage.threads.delete("ann", "t1") == key


async def test_what_a_worker_has_claimed_lives_as_long_as_its_lease(
    leased: Storage,
) -> None:
    storage = leased
    key = (await storage.threads.ensure("ann", "t1")).thread_key
    await storage.workers.register("w-1", this_owner(), seconds=30.0)
    await storage.memory_queue.enqueue(
        QueuedExchange("e1", "ann", "t1", key, {}, 1.0), debounce=0.0, ceiling=0.0
    )
    await storage.memory_queue.claim(now=9.0)
    assert await storage.memory_queue.claim(now=9.0) == []
    await storage.workers.retire("w-1")
    assert len(await storage.memory_queue.claim(now=9.0)) == 1


async def test_the_terminal_waits_for_a_living_worker_and_buries_a_dead_ones_run(
    storage: Storage, key: str
) -> None:
    await begin(storage, key, "r1")
    with pytest.raises(ConflictError, match="active"):
        await storage.threads.start_run(key, "r2", input={}, config={})
    with pytest.raises(ConflictError, match="active"):
        await storage.threads.reopen_run(key, "r1")
    await storage.workers.register("w-1", "1:1:elsewhere", seconds=EXPIRED)
    await storage.threads.start_run(key, "r2", input={}, config={})

    run = await storage.threads.run("r1")
    assert run is not None
    assert (run.status, (run.error or {}).get("code")) == ("error", "process_died")
    assert not await storage.workers.beat("w-1", seconds=30.0)


async def test_the_terminal_does_not_overtake_the_queue(storage: Storage, key: str) -> None:
    await queue(storage, key, "r1")
    with pytest.raises(ConflictError, match="queued"):
        await storage.threads.start_run(key, "r2", input={}, config={})
    with pytest.raises(ConflictError, match="queued"):
        await storage.threads.reopen_run(key, "r1")
    assert await storage.threads.run("r2") is None
