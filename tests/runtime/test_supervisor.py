"""Leases, takeover and what waits, between supervisors that share a database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from deerflow.errors import StorageError
from deerflow.runtime.parts import RunParts
from deerflow.runtime.supervisor import Duty, Supervisor, new_worker_id, next_id
from deerflow.runtime.worker import Worker
from deerflow.storage.protocol import NewRun, RunRow, ThreadRow
from fakes.harness import scripted_harness

USER = "anna"


class Noting:
    """An engine that executes nothing and notes what it is told."""

    def __init__(self) -> None:
        self.worker_id = ""
        self.started: list[str] = []
        self.recovered: list[tuple[str, list[str]]] = []

    async def start(self, run: RunRow, user_id: str) -> None:
        self.started.append(run.run_id)

    async def recover(self, worker_id: str, runs: Sequence[RunRow]) -> None:
        self.recovered.append((worker_id, [run.run_id for run in runs]))

    async def stop(self, run_id: str) -> None: ...

    async def drain(self, seconds: float) -> None: ...

    async def close(self) -> None: ...


class Post:
    """A supervisor with its worker and a noting engine."""

    def __init__(self, parts: RunParts, *duties: Duty) -> None:
        self.storage = parts.storage
        self.engine = Noting()
        self.worker = Worker(parts, new_worker_id())
        self.supervisor = Supervisor(
            parts.storage, self.worker, self.engine, parts.config.runtime, duties
        )


@asynccontextmanager
async def parts_of(home: Path, **sections: Any) -> AsyncGenerator[RunParts]:
    async with scripted_harness([], home, **sections) as harness:
        yield harness.parts


async def running(parts: RunParts, worker_id: str, *, seconds: float) -> RunRow:
    """A run that a worker has claimed."""
    thread = ThreadRow.new(USER, worker_id)
    submitted = await parts.storage.queue.submit(thread, NewRun(f"run-{worker_id}", {}), new=True)
    assert submitted is not None
    await parts.storage.workers.register(worker_id, "1:1:elsewhere", seconds=seconds)
    claimed = await parts.storage.queue.claim(submitted.run.run_id, worker_id)
    assert claimed is not None
    return claimed


async def test_a_dead_worker_is_taken_over_by_one_of_many(tmp_path: Path) -> None:
    async with parts_of(tmp_path) as parts:
        dead = await running(parts, "w-dead", seconds=0)
        alive = await running(parts, "w-alive", seconds=60)
        posts = [Post(parts) for _ in range(4)]
        await asyncio.gather(*(post.supervisor.take_over() for post in posts))
        told = [entry for post in posts for entry in post.engine.recovered]
        assert told == [("w-dead", [dead.run_id])]
        assert sum(post.supervisor.takeovers for post in posts) == 1
        rows = [await parts.storage.threads.run(run.run_id) for run in (dead, alive)]
        assert [row.status for row in rows if row is not None] == ["pending", "running"]


async def test_a_worker_whose_lease_was_lost_goes_on_under_another_name(tmp_path: Path) -> None:
    async with parts_of(tmp_path) as parts:
        post = Post(parts)
        async with post.supervisor.open():
            name = post.worker.worker_id
            await parts.storage.workers.retire(name)
            await post.supervisor.beat()
            assert post.worker.worker_id != name
            assert post.worker.worker_id.partition(".")[0] == name
            living = [row.worker_id for row in await parts.storage.workers.living()]
            assert living == [post.worker.worker_id]
        assert await parts.storage.workers.living() == []


def test_the_name_of_a_process_stays() -> None:
    first = new_worker_id()
    second = next_id(first)
    third = next_id(second)
    assert len({first, second, third}) == 3
    assert {name.partition(".")[0] for name in (first, second, third)} == {first}


async def test_a_run_that_waits_for_a_place_is_not_handed_over_at_every_look(
    tmp_path: Path,
) -> None:
    async with parts_of(tmp_path) as parts:
        run = await running(parts, "w-dead", seconds=0)
        post = Post(parts)
        assert await parts.storage.workers.take_over("w-dead")
        while not post.engine.started:  # it has to be ready for two seconds
            await post.supervisor.sweep()
            await asyncio.sleep(0.05)
        await post.supervisor.sweep()
        assert post.engine.started == [run.run_id]


async def test_a_duty_that_fails_is_tried_again(tmp_path: Path) -> None:
    done, tries = asyncio.Event(), list[int]()

    async def work() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise StorageError("The database failed.")
        if len(tries) == 2:
            raise ValueError("a defect")
        done.set()

    async with parts_of(tmp_path) as parts:
        post = Post(parts, Duty("test", work, 0.0))
        async with post.supervisor.open(), asyncio.timeout(10):
            await done.wait()
