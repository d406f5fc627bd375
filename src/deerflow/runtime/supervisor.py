"""Looks after the workers of all processes: leases, takeover, what waits, and what is due.

Every executing process has one. The database decides between them: a worker is taken over by
exactly one other, a run is claimed by exactly one, whoever looks first.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from deerflow.config.storage import RuntimeConfig
from deerflow.errors import StorageError
from deerflow.runtime.engine import Engine, hand_id, start_all
from deerflow.runtime.worker import Worker
from deerflow.storage.owner import WORKER, this_owner
from deerflow.storage.protocol import Storage

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.4
"""Between two looks for stops that other processes asked for: everything is still within 2 s."""
SWEEP_SECONDS = 1.0
PENDING_SECONDS = 2.0
"""A ready run that nobody has begun for so long was lost between its two commits: start it."""


LOOK_AGAIN_SECONDS = 30.0
"""A run that waits for a place is ready all the time: it is not handed over at every look."""
MOST = 1_000


@dataclass(frozen=True, slots=True)
class Duty:
    """Something that is to be done now and then, in any worker.

    Attributes:
        name: for the log.
        work: does it; must be safe when other processes do it at the same time.
        seconds: between two times.
    """

    name: str
    work: Callable[[], Coroutine[Any, Any, object]]
    seconds: float


class Supervisor:
    """Keeps a worker's lease and looks after everybody's runs.

    Args:
        storage: the stores.
        worker: of this process.
        engine: hands runs out.
        config: section `runtime`.
        duties: further work: expiry of approvals, webhooks, schedules, memory.
    """

    def __init__(
        self,
        storage: Storage,
        worker: Worker,
        engine: Engine,
        config: RuntimeConfig,
        duties: Sequence[Duty] = (),
    ) -> None:
        self._storage = storage
        self._worker = worker
        self._engine = engine
        self._lease = float(config.lease_seconds)
        self._duties = duties
        self._handed: dict[str, float] = {}
        self.takeovers = 0

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Supervisor]:
        """Registered and at work; the worker retires when it closes.

        Raises:
            StorageError: the worker could not be entered.
        """
        await self._register()
        own = (
            Duty("heartbeat", self.beat, self._lease / 3),
            Duty("stops", self._worker.look, LOOK_SECONDS),
            Duty("dead workers", self.take_over, min(SWEEP_SECONDS, self._lease / 3)),
            Duty("waiting runs", self.sweep, SWEEP_SECONDS),
        )
        tasks = [
            asyncio.create_task(_repeat(duty), name=duty.name) for duty in (*own, *self._duties)
        ]
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with contextlib.suppress(StorageError):
                await self._storage.workers.retire(self._worker.worker_id)

    async def _register(self) -> None:
        await self._storage.workers.register(
            self._worker.worker_id, this_owner(), seconds=self._lease
        )

    async def beat(self) -> None:
        """Renew the lease; a worker that was taken over ends its runs and begins anew."""
        if await self._storage.workers.beat(self._worker.worker_id, seconds=self._lease):
            return
        logger.warning("this worker's lease was lost; its runs go on elsewhere")
        await self._worker.abandon(next_id(self._worker.worker_id))
        await self._register()

    async def take_over(self) -> None:
        """Hand over the runs of workers that are dead."""
        for dead in await self._storage.workers.dead():
            if dead.worker_id == self._worker.worker_id:
                continue  # paused too long: the next heartbeat finds out
            runs = await self._storage.workers.take_over(dead.worker_id)
            if runs is None:
                continue
            self.takeovers += 1
            logger.info("worker %s is dead; %d runs go on", dead.worker_id, len(runs))
            for run in runs:
                self._storage.events.append(
                    run.thread_key, run.run_id, "handed_over", {"reason": "its worker died"}
                )
            await self._engine.recover(dead.worker_id, runs)

    async def sweep(self) -> None:
        """Start what is ready and was not started."""
        ready = await self._storage.queue.ready(limit=MOST, pending_for=PENDING_SECONDS)
        now, before = time.monotonic(), self._handed
        hands = {hand_id(run): run for run in ready}
        due = [hand for hand in hands if now - before.get(hand, -math.inf) >= LOOK_AGAIN_SECONDS]
        self._handed = {hand: before[hand] for hand in hands if hand in before}
        self._handed |= dict.fromkeys(due, now)
        await start_all(self._engine, self._storage, [hands[hand] for hand in due])


def next_id(worker_id: str) -> str:
    """Another id of the same process; the part before the dot names the process."""
    return f"{worker_id.partition('.')[0]}.{uuid.uuid4().hex[:8]}"


def new_worker_id() -> str:
    """The id of a process that begins to execute runs."""
    return f"{WORKER}{uuid.uuid4().hex}"


async def _repeat(duty: Duty) -> None:
    """Do a duty for ever; what fails is tried again, and said once until it succeeds."""
    failing = False
    while True:
        begun = time.monotonic()
        error = await _failure(duty.work())
        if isinstance(error, StorageError) and not failing:
            logger.warning("%s: %s", duty.name, error)
        elif error is not None and not isinstance(error, StorageError):
            logger.error("%s failed", duty.name, exc_info=error)
        failing = error is not None
        await asyncio.sleep(max(0.0, duty.seconds - (time.monotonic() - begun)))


async def _failure(work: Coroutine[Any, Any, object]) -> BaseException | None:
    """Do it as a task of its own, and say what it failed with."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task})
    finally:
        task.cancel()
    return None if task.cancelled() else task.exception()
