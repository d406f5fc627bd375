"""A worker claims, drives and gives back; what it cannot do ends the run or leaves it to others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from deerflow.errors import StorageError
from deerflow.models.scripted import ScriptedChatModel
from deerflow.runtime.admission import Admission
from deerflow.runtime.parts import RunParts
from deerflow.runtime.request import RunRequest
from deerflow.runtime.stopping import roll_back
from deerflow.runtime.worker import Worker
from deerflow.storage.protocol import RunRow, Strategy
from fakes.gates import Gate, held_model
from fakes.harness import scripted_harness

USER = "anna"


class FailingStoreModel(ScriptedChatModel):
    """Says at its first requests that the store has failed, as a write in its place would."""

    times: int = 1

    def _take(self, messages: Any, kwargs: Any) -> Any:
        if self.times:
            self.times -= 1
            raise StorageError("The database failed.")
        return super()._take(messages, kwargs)


class Desk:
    """A worker on a harness, and the short ways of tests."""

    def __init__(self, parts: RunParts, worker: Worker) -> None:
        self.parts = parts
        self.worker = worker
        self.storage = parts.storage

    async def pending(self, thread: str = "t", strategy: Strategy = "reject") -> RunRow:
        request = RunRequest(task="Go", thread_id=thread, user_id=USER)
        ready = await Admission(self.parts).prepare(request)
        run = ready.run(strategy=strategy)
        submitted = await self.storage.queue.submit(ready.thread, run, new=ready.new)
        assert submitted is not None
        return submitted.run

    async def row(self, run: RunRow) -> RunRow:
        found = await self.storage.threads.run(run.run_id)
        assert found is not None
        return found

    async def log(self, run: RunRow) -> list[str]:
        events = await self.storage.events.read(run.thread_key)
        return [event.type for event in events if event.run_id == run.run_id]


@asynccontextmanager
async def desk(home: Path, gate: Gate | None = None, **sections: Any) -> AsyncGenerator[Desk]:
    sections.setdefault("models", held_model())
    tools = [(gate or Gate()).tool()]
    async with scripted_harness([], home, tools=tools, **sections) as harness:
        worker = Worker(harness.parts, "w-1", roll_back=roll_back)
        await harness.storage.workers.register("w-1", "p", seconds=60)
        yield Desk(harness.parts, worker)


def opened() -> Gate:
    gate = Gate()
    gate.open()
    return gate


async def test_a_run_comes_to_its_end_and_names_the_next(tmp_path: Path) -> None:
    async with desk(tmp_path, opened()) as one:
        first, second = await one.pending(), await one.pending(strategy="enqueue")
        following = await one.worker.execute(first.run_id)
        assert following is not None
        assert (following.run.run_id, following.user_id) == (second.run_id, USER)
        assert await one.worker.execute(second.run_id) is None
        assert [(await one.row(run)).status for run in (first, second)] == ["success"] * 2
        log = await one.log(first)
        assert (log[:3], log[-1]) == (["run_queued", "run_started", "message"], "run_ended")
        assert log.count("message") == 4


async def test_what_is_not_its_turn_is_left_alone(tmp_path: Path) -> None:
    async with desk(tmp_path, opened()) as one:
        first, second = await one.pending(), await one.pending(strategy="enqueue")
        assert await one.worker.execute(second.run_id) is None
        assert await one.worker.execute("no-such-run") is None
        await one.storage.workers.retire("w-1")
        assert await one.worker.execute(first.run_id) is None
        assert {(await one.row(run)).status for run in (first, second)} == {"pending"}


async def test_a_run_that_can_no_more_be_taken_up_ends_as_an_error(tmp_path: Path) -> None:
    async with desk(tmp_path, opened()) as one:
        request = RunRequest(task="Go", thread_id="t", user_id=USER)
        ready = await Admission(one.parts).prepare(request)
        ready.config["model"] = "gone"  # configured when the run was handed in
        submitted = await one.storage.queue.submit(ready.thread, ready.run(), new=True)
        assert submitted is not None
        await one.worker.execute(submitted.run.run_id)
        row = await one.row(submitted.run)
        assert row.status == "error"
        assert row.error is not None
        assert row.error["code"] == "not_found"
        assert await one.log(row) == ["run_queued", "run_ended"]


async def test_a_store_that_fails_does_not_end_the_run(tmp_path: Path) -> None:
    use = f"{__name__}:{FailingStoreModel.__name__}"
    models = [{"name": "scripted", "use": use, "script": [{"text": "Done."}]}]
    async with desk(tmp_path, models=models) as one:
        run = await one.pending()
        following = await one.worker.execute(run.run_id)
        assert following is not None
        assert (following.run.run_id, following.run.status) == (run.run_id, "pending")
        assert await one.worker.execute(run.run_id) is None
        row = await one.row(run)
        assert (row.status, row.attempt) == ("success", 2)
        assert (await one.log(run)).count("run_ended") == 1


async def test_a_stop_that_was_asked_of_a_dead_worker_is_carried_out(tmp_path: Path) -> None:
    async with desk(tmp_path) as one:
        run = await one.pending()
        await one.storage.workers.register("w-dead", "p", seconds=0)
        assert await one.storage.queue.claim(run.run_id, "w-dead") is not None
        await one.storage.queue.ask_to_stop(run.run_id, "interrupt")
        assert await one.storage.workers.take_over("w-dead")
        await one.worker.execute(run.run_id)
        row = await one.row(run)
        assert (row.status, row.attempt) == ("cancelled", 2)


async def test_a_rollback_leaves_nothing_of_the_run(tmp_path: Path) -> None:
    gate = Gate()
    async with desk(tmp_path, gate) as one:
        run = await one.pending()
        task = asyncio.create_task(one.worker.execute(run.run_id))
        await gate.reached(1)
        await one.storage.queue.ask_to_stop(run.run_id, "rollback")
        await one.worker.look()
        await task
        assert await one.storage.threads.run(run.run_id) is None
        assert await one.log(run) == []
        state = await (await one.parts.agent(_context(one, run))).aget_state(
            {"configurable": {"thread_id": run.thread_key}}
        )
        assert state.values.get("messages", []) == []


def _context(one: Desk, run: RunRow) -> Any:
    from deerflow.agent.context import RunContext  # noqa: PLC0415

    folders = one.parts.folders(USER, run.thread_key)
    return RunContext(
        USER, "t", run.thread_key, run.run_id, folders, one.storage, one.parts.provider, "scripted"
    )


async def _cancel(one: Desk, task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait({task})


async def _abandon(one: Desk, task: asyncio.Task[Any]) -> None:
    await one.storage.workers.retire("w-1")
    await one.worker.abandon("w-1.again")
    await task


async def _drain(one: Desk, task: asyncio.Task[Any]) -> None:
    await one.worker.drain(0)
    await task


@pytest.mark.parametrize("leave", [_cancel, _abandon, _drain])
async def test_a_run_that_is_left_is_pending_and_has_no_end(
    tmp_path: Path, leave: Callable[[Desk, asyncio.Task[Any]], Awaitable[None]]
) -> None:
    gate = Gate()
    async with desk(tmp_path, gate) as one:
        run = await one.pending()
        task = asyncio.create_task(one.worker.execute(run.run_id))
        await gate.reached(1)
        await leave(one, task)
        row = await one.row(run)
        assert (row.status, row.owner, gate.stopped) == ("pending", "", ["t"])
        assert "run_ended" not in await one.log(run)
        assert one.worker.running == ()


async def test_a_thread_that_is_deleted_meanwhile_is_no_failure(tmp_path: Path) -> None:
    gate = Gate()
    async with desk(tmp_path, gate) as one:
        run = await one.pending()
        task = asyncio.create_task(one.worker.execute(run.run_id))
        await gate.reached(1)
        await one.storage.threads.delete(USER, "t")
        gate.open()
        assert await task is None


async def test_a_draining_worker_takes_nothing(tmp_path: Path) -> None:
    async with desk(tmp_path, opened()) as one:
        run = await one.pending()
        await one.worker.drain(1)
        assert await one.worker.execute(run.run_id) is None
        assert (await one.row(run)).status == "pending"
