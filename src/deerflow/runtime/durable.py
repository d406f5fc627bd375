"""The durable engine: hand-overs stand in a ledger that all processes share.

A run that somebody waits for begins in the process that took it, when that has a place, and is
entered in the ledger beside, unless it is over at once; all others wait in the ledger's queue for a
worker with one, by user and priority. What the ledger loses or repeats does no harm: the row of the
run decides who executes it.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Coroutine, Sequence
from typing import Any

from deerflow.errors import StorageError
from deerflow.runtime.engine import hand_id, start_all
from deerflow.runtime.ledger import Ledger
from deerflow.runtime.ledger_database import Place
from deerflow.runtime.slots import Slots
from deerflow.runtime.worker import Following, Worker
from deerflow.storage.protocol import RunRow, Storage

logger = logging.getLogger(__name__)

ENTRY_SECONDS = 0.02
"""After the beginning of a run here, its entry is made: its way to the model goes first."""
LAST_SECONDS = 1.0
"""How long closing waits for runs that have been put back to leave."""


class DbosEngine:
    """Hands runs out by a ledger of DBOS. See `Engine`.

    Args:
        storage: the stores.
        worker: executes; None hands everything to other processes.
        place: where the ledger is kept, and how much may run.
    """

    def __init__(self, storage: Storage, worker: Worker | None, place: Place) -> None:
        self._storage = storage
        self._worker = worker
        self._executor = "" if worker is None else executor_of(worker.worker_id)
        self._ledger = Ledger(place, self._executor)
        self._slots = Slots(place.worker_runs, place.user_runs)
        self._turns: dict[str, asyncio.Event] = {}
        self._inside: set[str] = set()
        self._here: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._draining = False

    async def open(self) -> None:
        """Launch the ledger. Raises StorageError."""
        await self._ledger.open(self._body)

    @property
    def worker_id(self) -> str:
        """See Engine."""
        return "" if self._worker is None else self._worker.worker_id

    async def start(self, run: RunRow, user_id: str) -> None:
        """See Engine. When the ledger fails, the supervisor finds the run."""
        hand = hand_id(run)
        if hand in self._inside:
            return
        try:
            if await self._hand_over(hand, run, user_id) or not await self._is_over(hand):
                return
            # an earlier hand-over of this very attempt ended without a claim
            await self._hand_over(f"{hand}.{uuid.uuid4().hex[:8]}", run, user_id)
        except StorageError as error:
            logger.warning("run %s was not handed over, it waits: %s", run.run_id, error)

    async def _hand_over(self, hand: str, run: RunRow, user_id: str) -> bool:
        """Begin here or enqueue; False when the id is in use."""
        here = self._worker is not None and not self._draining
        if not here or not self._slots.enter(hand, user_id):
            return await self._ledger.enqueue(hand, run, user_id)
        self._inside.add(hand)
        work = self._task(self._carry_out(hand, run.run_id), f"hand {hand}")
        self._task(self._enter(hand, run, user_id, work), f"entry of {hand}")
        return True

    def _task(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("%s failed", task.get_name(), exc_info=task.exception())

    async def _enter(self, hand: str, run: RunRow, user_id: str, work: asyncio.Task[None]) -> None:
        """Enter what runs here already; in vain when others handed it over at the same time.

        A hand-over that is over by then needs no entry: entries are for those who look for it.
        """
        await asyncio.wait({work}, timeout=ENTRY_SECONDS)
        if work.done():
            return
        self._here[hand] = work
        try:
            if await self._ledger.begin(hand, run.run_id, user_id, run.priority):
                return  # its body takes the task out
        except StorageError as error:
            logger.warning("run %s is not in the ledger: %s", run.run_id, error)
        del self._here[hand]

    async def _is_over(self, hand: str) -> bool:
        """Whether nobody is at work on a hand-over any more; one whose process died is ended."""
        found = await self._ledger.look(hand)
        if found is None or found.ended:
            return True
        if found.waits:
            return False
        if found.executor == self._executor:
            return hand not in self._inside
        if found.executor in await self._living():
            return False
        await self._ledger.cancel([hand])
        return True

    async def _living(self) -> set[str]:
        return {executor_of(row.worker_id) for row in await self._storage.workers.living()}

    async def _body(self, hand: str, run_id: str, user_id: str, priority: int) -> None:
        """The workflow, as thin as it can be: what runs here already is waited for."""
        work = self._here.pop(hand, None)
        if work is not None:
            await asyncio.wait({work})
        elif hand not in self._inside:
            self._inside.add(hand)
            await self._carry_out(hand, run_id, turn=(user_id, priority))

    async def _carry_out(self, hand: str, run_id: str, turn: tuple[str, int] | None = None) -> None:
        """Execute the run, in a place that it has or waits for."""
        following: Following | None = None
        try:
            if turn is not None:
                await self._turn(hand, *turn)
            if self._worker is not None:
                following = await self._worker.execute(run_id)
        finally:
            self._inside.discard(hand)
            self._turns.pop(hand, None)
            self._give_place(hand)
        if following is not None:
            await self.start(following.run, following.user_id)

    async def _turn(self, hand: str, user_id: str, priority: int) -> None:
        """Wait for a place in this process: runs that began here directly have theirs already."""
        self._turns[hand] = turn = asyncio.Event()
        self._slots.wait(hand, user_id, priority)
        self._fill()
        await turn.wait()

    def _give_place(self, hand: str) -> None:
        self._slots.free(hand)
        self._fill()

    def _fill(self) -> None:
        while (hand := self._slots.take()) is not None:
            turn = self._turns.get(hand)
            if turn is None:
                self._slots.free(hand)
            else:
                turn.set()

    async def recover(self, worker_id: str, runs: Sequence[RunRow]) -> None:
        """See Engine. The dead one's hand-overs end, so that they take nobody's place."""
        try:
            await self._ledger.cancel(await self._ledger.of_executor(executor_of(worker_id)))
        except StorageError as error:
            logger.warning("hand-overs of worker %s stay for now: %s", worker_id, error)
        await start_all(self, self._storage, runs)

    async def tidy(self) -> None:
        """A duty: ends what vanished processes left in the ledger, drops what ended long ago."""
        await self._ledger.tidy(await self._living())

    async def stop(self, run_id: str) -> None:
        """See Engine."""
        if self._worker is not None:
            self._worker.stop(run_id)

    async def drain(self, seconds: float) -> None:
        """See Engine."""
        self._draining = True
        if self._worker is not None:
            await self._worker.drain(seconds)
        for turn in self._turns.values():  # the worker takes nothing more: they leave
            turn.set()

    async def close(self) -> None:
        """See Engine."""
        await self.drain(0)
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=LAST_SECONDS)
        await self._ledger.close()


def executor_of(worker_id: str) -> str:
    """The process in a worker's id: it stays when a lease is lost and the id changes."""
    return worker_id.partition(".")[0]
