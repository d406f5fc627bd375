"""Executes runs for a worker: claims, drives, and gives back what it cannot bring to its end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl

from deerflow.errors import DeerFlowError, LeaseLostError, StorageError, ThreadGoneError
from deerflow.runtime.admission import Admission
from deerflow.runtime.driving import Driver, is_fault
from deerflow.runtime.parts import Job, RunParts
from deerflow.runtime.request import RunResult
from deerflow.storage.protocol import RunRow
from deerflow.storage.states import is_to_take_back

logger = logging.getLogger(__name__)

AGAIN_AFTER = 5.0
"""Seconds after which a run that was cancelled and still works is cancelled once more."""
FAULTS = 6
"""Failures of the store after which a run is given up; the wait doubles each time."""
FIRST_WAIT = 0.25
LONGEST_WAIT = 5.0
"""Seconds between two tries to give a run back to a store that does not answer."""
MOST_ATTEMPTS = 100
"""Claims of a run; one that ends its worker's process every time is not taken up for ever."""
CANCEL_SECONDS = 2.0
"""Seconds in which a cancelled run has left its tools and sandboxes."""
LAST_SECONDS = 5.0
"""And after which it is waited for no longer."""

RollBack = Callable[[RunParts, RunRow], Awaitable[None]]
"""Takes an ended run back: see `stopping.roll_back`."""


@dataclass(frozen=True, slots=True)
class Following:
    """A run that is to be started after the one that has just left: its row and its user."""

    run: RunRow
    user_id: str


@dataclass(slots=True)
class _Running:
    job: Job
    task: asyncio.Task[RunResult]
    asked_at: float | None = field(default=None)


class Worker:
    """Executes claimed runs in this process.

    Args:
        parts: what runs are driven with.
        worker_id: owner of the runs; its row in `Workers` is the supervisor's to keep.
        roll_back: called for a stopped run that is to leave nothing behind.
        driver: brings runs to their end; None = in this process.
    """

    def __init__(
        self,
        parts: RunParts,
        worker_id: str,
        *,
        roll_back: RollBack | None = None,
        driver: Driver | None = None,
    ) -> None:
        self.worker_id = worker_id
        self._parts = parts
        self._storage = parts.storage
        self._admission = Admission(parts)
        self._driver = driver or Driver(parts)
        self._roll_back = roll_back
        self._running: dict[str, _Running] = {}
        self._fenced: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()
        self._inside = 0
        self._left = asyncio.Event()
        self._left.set()
        self._draining = False
        self._closing = asyncio.Event()

    @property
    def running(self) -> tuple[str, ...]:
        """Ids of the runs that are driven now."""
        return tuple(self._running)

    async def execute(self, run_id: str) -> Following | None:
        """Claim a run and bring it to its end; nothing when it is not this worker's turn.

        Returns:
            What is to be started next: the thread's next run, or this one again.

        Raises:
            StorageError: it could not be claimed; its row is as before.
        """
        if self._draining:
            return None
        self._inside += 1
        self._left.clear()
        try:
            return await self._execute(run_id)
        finally:
            self._inside -= 1
            if not self._inside:
                self._left.set()

    async def _execute(self, run_id: str) -> Following | None:
        storage, worker_id = self._storage, self.worker_id
        row = await storage.queue.claim(run_id, worker_id)
        if row is None:
            return None
        key = row.thread_key
        thread = await storage.threads.by_key(key)
        if thread is None:
            return None
        self._fence(key, worker_id)
        try:
            again = await self._carry(row, thread)
        finally:
            self._unfence(key)
        following = again or (None if self._draining else await storage.queue.next_in(key))
        return None if following is None else Following(following, thread.user_id)

    def _fence(self, key: str, worker_id: str) -> None:
        self._storage.workers.fence(key, worker_id)
        self._fenced[key] += 1

    def _unfence(self, key: str) -> None:
        """A run of the thread may have begun while the one before it left: its fence stays."""
        self._fenced[key] -= 1
        if not self._fenced[key]:
            del self._fenced[key]
            self._storage.workers.fence(key, None)

    async def _carry(self, row: RunRow, thread: Any) -> RunRow | None:
        """Drive a claimed run; its row when it is to be started again."""
        try:
            if row.attempt > MOST_ATTEMPTS:
                raise DeerFlowError(
                    f"The run ended its process {MOST_ATTEMPTS} times and is given up."
                )
            job = await self._admission.accept(row, thread)
            await self._drive(row, job)
        except LeaseLostError:
            logger.info("run %s was given to another worker", row.run_id)
        except ThreadGoneError:
            pass  # deleted meanwhile: nothing is left to close
        except (asyncio.CancelledError, GraphDrained):
            await self._put_back(row, "its worker stops")
        except StorageError as error:
            if is_fault(error):
                return await self._after_fault(row, error)
            await self._refuse(row, error)
        except DeerFlowError as error:
            await self._refuse(row, error)
        except Exception:  # a defect: the run ends, and who called logs it
            await self._refuse(row, DeerFlowError("The run failed by an internal error."))
            raise
        return None

    async def _drive(self, row: RunRow, job: Job) -> None:
        job.control = RunControl()
        if self._draining:
            raise GraphDrained
        task = asyncio.create_task(self._driver.execute(job), name=f"run {row.run_id}")
        await asyncio.sleep(0)  # the task is inside its `try` before anybody can cancel it
        self._running[row.run_id] = running = _Running(job, task)
        if row.cancel:
            self.stop(row.run_id)
        try:
            result = await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():  # this caller was cancelled, not the run: the run is left
                self._leave(running)
                await asyncio.wait({task})
            raise
        finally:
            self._running.pop(row.run_id, None)
        self._faults.pop(row.run_id, None)
        if result.status == "cancelled" and self._roll_back is not None:
            ended = await self._storage.threads.run(row.run_id)
            if ended is not None and is_to_take_back(ended):
                await self._roll_back(self._parts, ended)

    def stop(self, run_id: str) -> None:
        """Cancel a run of this worker; again only after a while, so that it can tidy up."""
        running, now = self._running.get(run_id), time.monotonic()
        if running is None or (
            running.asked_at is not None and now - running.asked_at < AGAIN_AFTER
        ):
            return
        running.asked_at = now
        running.task.cancel()

    async def look(self) -> None:
        """Carry out the stops that other processes asked for."""
        if self._running:
            for run_id in await self._storage.queue.to_stop(self.worker_id):
                self.stop(run_id)

    async def drain(self, seconds: float) -> None:
        """Claim nothing more; runs end, stop at a step border, or are put back when time is up.

        Args:
            seconds: in all; the last two are for runs that have to be cancelled.
        """
        self._draining = True
        for running in self._running.values():
            if running.job.control is not None:
                running.job.control.request_drain()
        if not await self._empty(max(0.0, seconds - CANCEL_SECONDS)):
            for running in list(self._running.values()):
                self._leave(running)
            self._closing.set()
            await self._empty(LAST_SECONDS)

    async def abandon(self, worker_id: str) -> None:
        """The lease is lost: end everything without writing, and go on under a new id."""
        self.worker_id = worker_id
        for running in list(self._running.values()):
            self._leave(running)
        await self._empty(LAST_SECONDS)

    async def _empty(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._left.wait()
        except TimeoutError:
            return False
        return True

    @staticmethod
    def _leave(running: _Running) -> None:
        running.job.left = True
        running.task.cancel()

    async def _put_back(self, row: RunRow, reason: str) -> RunRow | None:
        """Make the row pending again, for whoever is there; tried until the store answers."""
        wait = FIRST_WAIT
        while row.owner == self.worker_id:
            try:
                event = self._storage.events.append(
                    row.thread_key, row.run_id, "handed_over", {"reason": reason}
                )
                await event
                return await self._storage.queue.put_back(row.run_id)
            except (LeaseLostError, ThreadGoneError):
                break
            except StorageError:
                if await self._closed_within(wait):
                    break
                wait = min(2 * wait, LONGEST_WAIT)
        return None

    async def _closed_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            return False
        return True

    async def _after_fault(self, row: RunRow, error: StorageError) -> RunRow | None:
        self._faults[row.run_id] += 1
        faults = self._faults[row.run_id]
        logger.warning("run %s: the store failed (%s), try %d", row.run_id, error, faults)
        if faults > FAULTS:
            del self._faults[row.run_id]
            await self._refuse(row, error)
            return None
        if await self._closed_within(FIRST_WAIT * 2 ** (faults - 1)):
            return None
        return await self._put_back(row, "the database failed")

    async def _refuse(self, row: RunRow, error: DeerFlowError) -> None:
        """End a run that could not be driven."""
        problem = {"code": error.code, "message": error.message, "cure": error.cure}
        ended: dict[str, Any] = {
            "status": "error",
            "outcome": None,
            "usage": {},
            "error": problem,
            "artifacts": [],
            "at": time.time(),
        }
        await self._storage.threads.end_run(
            row.run_id, status="error", outcome=None, error=problem, event=("run_ended", ended)
        )
