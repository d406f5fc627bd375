"""Schedulers without a model: runs are rows, and processes that tick may be killed."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from deerflow.config.storage import SchedulerConfig
from deerflow.errors import DeerFlowError, NotFoundError
from deerflow.runtime.request import RunRequest
from deerflow.runtime.schedules import Scheduler
from deerflow.runtime.submission import DEFAULT, SubmitOptions
from deerflow.storage.protocol import NewRun, Storage, Submitted, ThreadRow
from deerflow.storage.sql.storage import SqliteStorage

ON = SchedulerConfig(enabled=True, min_once_delay_seconds=0)


@dataclass
class Rows:
    """Enters runs into the queue, and no more; fails with `failure` while it is set.

    With `ends` each run ends as soon as it is there, and so do those that the dead have left.
    """

    storage: Storage
    failure: DeerFlowError | None = None
    asked: list[SubmitOptions] = field(default_factory=list[SubmitOptions])
    ends: bool = False

    async def submit(self, request: RunRequest, options: SubmitOptions = DEFAULT) -> Submitted:
        """See Submissions."""
        self.asked.append(options)
        if self.failure is not None:
            raise self.failure
        run = NewRun(
            options.run_id or "",
            request.to_dict(),
            metadata=options.metadata,
            strategy=options.strategy,
            idempotency_key=options.idempotency_key,
        )
        thread_id = request.thread_id or ""
        while True:
            found = await self.storage.threads.get(request.user_id, thread_id)
            thread = found or ThreadRow.new(request.user_id, thread_id)
            submitted = await self.storage.queue.submit(thread, run, new=found is None)
            if submitted is not None:
                break
        if self.ends:
            for left in await self.storage.threads.runs(submitted.run.thread_key):
                await self.storage.queue.ask_to_stop(left.run_id, "interrupt")
        return submitted

    async def delete_thread(self, user_id: str, thread_id: str) -> None:
        """See Submissions."""
        if await self.storage.threads.delete(user_id, thread_id) is None:
            raise NotFoundError("There is no such thread.")


def scheduler(storage: Storage, config: SchedulerConfig = ON) -> tuple[Scheduler, Rows]:
    """A scheduler whose runs are rows."""
    rows = Rows(storage)
    return Scheduler(storage, rows, config), rows


@dataclass(frozen=True, slots=True)
class Clock:
    """A time that goes faster than the real one, the same in all processes of the machine."""

    begin: float
    speed: float
    real: float = field(default_factory=time.time)

    def now(self) -> float:
        """UTC seconds of it."""
        return self.begin + (time.time() - self.real) * self.speed


def tick_for_ever(path: Path, clock: Clock, pipe: Connection) -> None:
    """A worker process that does nothing but look at schedules; says once that it has."""

    async def main() -> None:
        storage = SqliteStorage(path)
        config = ON.model_copy(update={"max_concurrent_runs": 1_000_000})
        found, rows = scheduler(storage, config)
        rows.ends = True
        await found.tick(clock.now())
        pipe.send("at work")
        while True:
            await found.tick(clock.now())

    asyncio.run(main())
