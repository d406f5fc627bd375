"""What every engine does: order, limits, priority, idempotent starts, recovery, stops, draining."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deerflow.runtime.admission import Admission
from deerflow.runtime.request import RunRequest
from deerflow.runtime.submission import SubmitOptions
from deerflow.storage.postgres.database import Place
from deerflow.storage.postgres.schema import prepare
from deerflow.storage.protocol import RunRow
from fakes.gates import Gate, held_model
from fakes.opened import USER, Service, opened_runtime
from fakes.postgres import emptied, need_postgres, served_schema

Opened = Callable[..., AbstractAsyncContextManager[Service]]


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, str]]:
    """A schema for all tests here: making its tables and the ledger's takes seconds."""
    need_postgres()
    with served_schema() as database:
        yield database


@pytest.fixture(params=["memory", "sqlite", "dbos-sqlite", "dbos-postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    """Opens a service with a gate; again on the same database when called again."""
    kind = str(request.param)
    if kind != "dbos-postgres":
        return _opener(tmp_path, {"backend": kind.rpartition("-")[2]}, durable="-" in kind)
    database = request.getfixturevalue("server")
    place = Place(database["postgres_url"], database["postgres_schema"])
    prepare(place)
    emptied(place)
    return _opener(tmp_path, database, durable=True)


def _opener(home: Path, database: dict[str, Any], *, durable: bool) -> Opened:
    @asynccontextmanager
    async def open_one(gate: Gate, **runtime: Any) -> AsyncGenerator[Service]:
        sections = {"database": database, "runtime": runtime, "models": held_model()}
        async with opened_runtime(
            [], home, tools=[gate.tool()], durable=durable, **sections
        ) as one:
            yield one

    return open_one


async def ended(one: Service, *runs: RunRow) -> list[RunRow]:
    async with asyncio.timeout(30):
        waits = [one.runtime.submissions.wait(run.thread_key, run.run_id) for run in runs]
        return list(await asyncio.gather(*waits))


async def submit(one: Service, user: str, thread: str, **options: Any) -> RunRow:
    request = RunRequest(task="Hold", thread_id=thread, user_id=user)
    return (await one.runtime.submissions.submit(request, SubmitOptions(**options))).run


async def test_runs_of_a_thread_follow_each_other(opened: Opened) -> None:
    gate = Gate()
    async with opened(gate) as one:
        runs = [await one.submit("Hold", options={"strategy": "enqueue"}) for _ in range(3)]
        await gate.reached(1)
        gate.open()
        rows = await ended(one, *runs)
        events = [e for e in await one.log() if e.type in ("run_started", "run_ended")]
    assert [row.status for row in rows] == ["success"] * 3
    assert gate.most[""] == 1
    told = [(e.type, e.run_id) for e in events]
    assert told == [(type_, run.run_id) for run in runs for type_ in ("run_started", "run_ended")]


async def test_the_limits_of_a_worker_and_of_a_user_hold(opened: Opened) -> None:
    gate = Gate()
    async with opened(gate, concurrent_runs=5, user_runs=2) as one:
        runs = [
            await submit(one, user, f"{user}{number}")
            for user in ("anna", "ben", "carl")
            for number in range(3)
        ]
        await gate.reached(5)
        gate.open()
        rows = await ended(one, *runs)
    assert {row.status for row in rows} == {"success"}
    assert gate.most[""] <= 5
    assert max(gate.most[user] for user in ("anna", "ben", "carl")) == 2


async def test_who_is_waited_for_goes_first(opened: Opened) -> None:
    gate = Gate()
    async with opened(gate, concurrent_runs=1, user_runs=1) as one:
        first = await submit(one, USER, "first")
        await gate.reached(1)
        later = [await submit(one, USER, f"background{n}", priority=0) for n in range(3)]
        later.append(await submit(one, USER, "interactive"))
        gate.open()
        await ended(one, first, *later)
    assert gate.order[0] == "first"
    assert "interactive" in gate.order[1:3]  # one may have stood at the door already
    assert [name for name in gate.order if "back" in name] == [f"background{n}" for n in range(3)]


async def test_starting_again_changes_nothing(opened: Opened) -> None:
    gate = Gate()
    async with opened(gate) as one:
        run = await submit(one, USER, "t")
        await asyncio.gather(*(one.runtime.engine.start(run, USER) for _ in range(5)))
        await gate.reached(1)
        await one.runtime.engine.start(run, USER)
        gate.open()
        (row,) = await ended(one, run)
        await one.runtime.engine.start(run, USER)
        log = await one.log("t")
    assert (row.status, row.attempt, gate.order) == ("success", 1, ["t"])
    assert [e.type for e in log].count("run_started") == 1


async def test_a_run_that_was_handed_over_in_vain_is_handed_over_again(opened: Opened) -> None:
    """As when a process dies between the two, or takes a run and may not have it."""
    gate = Gate()
    gate.open()
    async with opened(gate) as one:
        early = await _pending(one, "later", not_before=4_000_000_000.0)
        await one.runtime.engine.start(early, USER)  # nobody may claim it yet
        run = await _pending(one, "now")
        await one.runtime.engine.start(run, USER)
        (row,) = await ended(one, run)
        assert row.status == "success"
        waiting = await one.storage.threads.run(early.run_id)
        assert waiting is not None
        assert waiting.status == "pending"
        back = await one.storage.queue.ask_to_stop(early.run_id, "interrupt")
        assert back is not None
        again = await one.storage.queue.put_back(early.run_id)
        assert again is not None
        await one.runtime.engine.start(again, USER)
        (row,) = await ended(one, again)
    assert (row.status, row.attempt) == ("success", 1)


async def _pending(one: Service, thread: str, **more: Any) -> RunRow:
    """A run whose row was committed, and nothing else."""
    request = RunRequest(task="Hold", thread_id=thread, user_id=USER)
    prepared = await Admission(one.parts).prepare(request)
    submitted = await one.storage.queue.submit(
        prepared.thread, prepared.run(**more), new=prepared.new
    )
    assert submitted is not None
    return submitted.run


async def test_what_nobody_started_is_started(opened: Opened) -> None:
    gate = Gate()
    gate.open()
    async with opened(gate) as one:
        run = await _pending(one, "t")
        (row,) = await ended(one, run)
    assert (row.status, row.attempt) == ("success", 1)


async def test_runs_of_a_dead_worker_go_on(opened: Opened) -> None:
    gate = Gate()
    gate.open()
    async with opened(gate) as one:
        run = await _pending(one, "t")
        await one.storage.workers.register("w-dead", "1:1:elsewhere", seconds=0.05)
        claimed = await one.storage.queue.claim(run.run_id, "w-dead")
        assert claimed is not None
        (row,) = await ended(one, run)
        log = [e.type for e in await one.log("t")]
    assert (row.status, row.attempt) == ("success", 2)
    assert log.count("handed_over") == 1
    assert log[-1] == "run_ended"


@pytest.mark.parametrize("by", ["engine", "other"])
async def test_a_stop_ends_the_run(opened: Opened, by: str) -> None:
    gate = Gate()
    async with opened(gate) as one:
        run = await submit(one, USER, "t")
        await gate.reached(1)
        async with asyncio.timeout(2):
            if by == "engine":
                await one.runtime.submissions.cancel(USER, "t", run.run_id)
            else:  # another process only writes the row
                await one.storage.queue.ask_to_stop(run.run_id, "interrupt")
            (row,) = await ended(one, run)
        log = await one.log("t")
    assert (row.status, gate.stopped) == ("cancelled", ["t"])
    assert [e.type for e in log][-1] == "run_ended"


async def test_draining_hands_over_and_the_next_process_goes_on(opened: Opened) -> None:
    gate = Gate()
    async with opened(gate) as one:
        if one.storage.kind == "memory":
            pytest.skip("nothing outlives the process")
        run = await submit(one, USER, "t")
        await gate.reached(1)
        await one.runtime.engine.drain(0.05)
        row = await one.storage.threads.run(run.run_id)
        assert row is not None
        assert (row.status, row.owner, gate.stopped) == ("pending", "", ["t"])
        late = await submit(one, USER, "late")
        assert len(gate.order) == 1
    gate = Gate()
    gate.open()
    async with opened(gate) as two:
        rows = await ended(two, replace(run), late)
        log = [e.type for e in await two.log("t")]
    assert [row.status for row in rows] == ["success", "success"]
    assert log.count("handed_over") == 1
    assert log.count("run_ended") == 1


async def test_a_drained_run_stops_at_a_step_border(opened: Opened) -> None:
    gate = Gate()
    async with opened(gate) as one:
        run = await submit(one, USER, "t")
        await gate.reached(1)
        drain = asyncio.create_task(one.runtime.engine.drain(20))
        await asyncio.sleep(0)
        gate.open()
        await drain
        row = await one.storage.threads.run(run.run_id)
        assert row is not None
        assert (row.status, gate.stopped) == ("pending", [])
