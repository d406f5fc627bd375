"""The seam of the engine: hands runs to executors. And its twin that runs them as tasks here.

A row of the runs table is the truth; an engine only brings somebody to look at it. So starting
twice is harmless, and what an engine loses is found again by the supervisor.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from deerflow.runtime.slots import Slots
from deerflow.runtime.worker import Following, Worker
from deerflow.storage.protocol import RunRow, Storage

logger = logging.getLogger(__name__)


@runtime_checkable
class Engine(Protocol):
    """Hands runs to whoever executes them."""

    @property
    def worker_id(self) -> str:
        """Owner of the runs that this process executes, "" when it executes none."""
        ...

    async def start(self, run: RunRow, user_id: str) -> None:
        """Hand a pending run to an executor; the second time it changes nothing."""
        ...

    async def recover(self, worker_id: str, runs: Sequence[RunRow]) -> None:
        """Hand over the runs of a dead worker; they are pending again."""
        ...

    async def stop(self, run_id: str) -> None:
        """Quicken a stop that the queue's row asks for already, when the run executes here."""
        ...

    async def drain(self, seconds: float) -> None:
        """Begin nothing more; what runs ends, stops at a step border or is put back."""
        ...

    async def close(self) -> None:
        """End what still runs here, leave its rows to others, and release everything."""
        ...


def hand_id(run: RunRow) -> str:
    """Names one hand-over of a run: its id, with the number of claims before it when it has any."""
    return run.run_id if run.attempt == 0 else f"{run.run_id}.{run.attempt}"


class InProcessEngine:
    """Runs as tasks of this process: the engine without a queue of its own.

    Args:
        storage: the stores.
        worker: executes; None hands everything to other processes.
        concurrent: runs at once.
        of_user: runs at once of one user.
    """

    def __init__(
        self, storage: Storage, worker: Worker | None, *, concurrent: int, of_user: int
    ) -> None:
        self._storage = storage
        self._worker = worker
        self._slots = Slots(concurrent, of_user)
        self._known: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._draining = False

    @property
    def worker_id(self) -> str:
        """See Engine."""
        return "" if self._worker is None else self._worker.worker_id

    async def start(self, run: RunRow, user_id: str) -> None:
        """See Engine."""
        hand = hand_id(run)
        if self._worker is None or self._draining or hand in self._known:
            return
        self._known.add(hand)
        self._slots.wait(hand, user_id, run.priority)
        self._fill()

    async def recover(self, worker_id: str, runs: Sequence[RunRow]) -> None:
        """See Engine."""
        await start_all(self, self._storage, runs)

    async def stop(self, run_id: str) -> None:
        """See Engine."""
        if self._worker is not None:
            self._worker.stop(run_id)

    async def drain(self, seconds: float) -> None:
        """See Engine."""
        self._draining = True
        if self._worker is not None:
            await self._worker.drain(seconds)

    async def close(self) -> None:
        """See Engine."""
        await self.drain(0)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _fill(self) -> None:
        while not self._draining and (hand := self._slots.take()) is not None:
            task = asyncio.create_task(self._execute(hand), name=f"hand {hand}")
            self._tasks.add(task)
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("%s failed", task.get_name(), exc_info=task.exception())

    async def _execute(self, hand: str) -> None:
        following: Following | None = None
        try:
            if self._worker is not None:
                following = await self._worker.execute(hand.partition(".")[0])
        finally:
            self._known.discard(hand)
            self._slots.free(hand)
            self._fill()
        if following is not None:
            await self.start(following.run, following.user_id)


async def start_all(engine: Engine, storage: Storage, runs: Sequence[RunRow]) -> None:
    """Start runs whose users are not known yet; those of deleted threads are left out."""
    for run in runs:
        thread = await storage.threads.by_key(run.thread_key)
        if thread is not None:
            await engine.start(run, thread.user_id)
