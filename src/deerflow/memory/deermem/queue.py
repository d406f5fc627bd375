"""`MemoryUpdateQueue`: exchanges wait in the database until an extraction has taken them in.

Claim, ask the model outside of any lock, apply under the storage's lock, complete. A crash between
any two of them repeats the step; the document knows the entries that it has taken in.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import math
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field

from deerflow.config.agents import MemoryBackendConfig
from deerflow.errors import LimitError, ModelError, StorageError
from deerflow.memory.deermem.applying import Origin, apply
from deerflow.memory.deermem.claims import Claims, whole
from deerflow.memory.deermem.exchanges import Batch, batches, cleaned
from deerflow.memory.deermem.updater import MemoryUpdater
from deerflow.memory.protocol import Exchange, FlushReport, MemoryDocument, MemoryStorage, Source
from deerflow.storage.protocol import MemoryQueue, QueuedExchange

logger = logging.getLogger(__name__)

PARALLEL = 4
"""Users whose exchanges are extracted at once in a process."""
WAITS = (60.0, 300.0, 1_800.0, 7_200.0)
"""Seconds until the next attempt after the first four failures."""
LONG_WAIT = 43_200.0
"""Seconds between further attempts: the fifth failure is logged as an error, nothing is dropped."""
LOOK = 30.0
"""Seconds after which an idle worker looks for what other processes have left."""
BUSY_LOOK = 2.0
"""The same while something is due that another process holds the user of."""
RELATED = 30
"""Known facts with words of the exchanges that are shown to the model before the newest."""


@dataclass(slots=True)
class _Drain:
    """One call of `flush`, or the worker.

    Attributes:
        user_id: only this user's.
        force: also what is not due.
        done: entries that were completed.
        failed: ids that failed here; they are not tried a second time.
        looked: whether it has claimed, which frees what dead processes had claimed.
        horizon: the first time at which one of them is due; all that is due before has been tried.
        aside: entries that are held until the end, each with the time at which it is due.
    """

    user_id: str | None = None
    force: bool = False
    done: int = 0
    failed: set[str] = field(default_factory=set[str])
    looked: bool = False
    horizon: float = math.inf
    aside: list[tuple[list[str], float]] = field(default_factory=list[tuple[list[str], float]])


class MemoryUpdateQueue:
    """Takes exchanges; works them off by `flush` or by a worker in the background.

    Args:
        queue: the durable queue.
        updater: extracts.
        storage: where memories are kept.
        config: `memory.backend_config`: debounce_seconds, max_wait_seconds, max_facts.
        clock: UTC seconds.
    """

    def __init__(
        self,
        queue: MemoryQueue,
        updater: MemoryUpdater,
        storage: MemoryStorage,
        config: MemoryBackendConfig,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._queue = queue
        self._updater = updater
        self._storage = storage
        self._config = config
        self._clock = clock
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._claims = Claims(queue, clock)
        self._worker: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._claiming = asyncio.Lock()
        self._fresh: list[Awaitable[None]] = []

    async def put(self, user_id: str, thread_key: str, exchange: Exchange) -> str:
        """Queue an exchange, in order with the step's other writes; nothing is waited for.

        Returns:
            The id of the entry, made from thread and message: the same message is queued once. ""
            for chit-chat.
        """
        kept = cleaned(exchange)
        if kept is None:
            return ""
        entry = QueuedExchange(
            entry_id=entry_id_of(thread_key, exchange.message),
            user_id=user_id,
            thread_id=exchange.thread,
            thread_key=thread_key,
            payload=kept.to_dict(),
            queued_at=self._clock(),
        )
        times = {
            "debounce": self._config.debounce_seconds,
            "ceiling": self._config.max_wait_seconds,
        }
        ticket = self._queue.enqueue(entry, **times)
        if self._worker is not None:
            self._fresh.append(ticket)
            self._wake.set()
        return entry.entry_id

    async def flush(
        self, *, user_id: str | None = None, seconds: float, force: bool = True
    ) -> FlushReport:
        """Work off what is queued, and wait for what is under way.

        When the time is over, calls of the model are cut off and their entries given back. An entry
        that fails is tried once; one that has failed five times only when it is due.

        Args:
            user_id: only this user's.
            seconds: at most so long; what is left stays queued.
            force: also what is not due yet.

        Raises:
            StorageError: the queue cannot be read or written.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        drain = _Drain(user_id, force)
        mine, timed_out = set[asyncio.Task[None]](), False
        try:
            while loop.time() < deadline:
                await self._fill(drain, mine)
                running = mine | {t for t, who in self._tasks.items() if user_id in (None, who)}
                if not running:
                    break
                left = max(0.0, deadline - loop.time())
                await asyncio.wait(running, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                mine = {task for task in mine if not task.done()}
            else:
                timed_out = True
        finally:
            _, cancelled = await whole(self._stop(mine, drain))
        if cancelled:
            raise asyncio.CancelledError
        return FlushReport(drain.done, await self._queue.pending(user_id), timed_out)

    async def pending(self, user_id: str | None = None) -> int:
        """Entries that wait or are under way, of one user or of all."""
        return await self._queue.pending(user_id)

    async def discard(self, user_id: str) -> int:
        """Drop what waits of a user; how many entries. What is under way here is stopped."""
        count = 0
        async with self._claiming:
            mine = [task for task, who in self._tasks.items() if who == user_id]
            await whole(self._stop(mine))
            while group := await self._claims.take(user_id, force=True):
                await self._queue.complete([entry.entry_id for entry in group])
                count += len(group)
        return count

    async def start(self) -> None:
        """Work off entries in the background as they become due."""
        if self._worker is None:
            self._worker = asyncio.create_task(self._run(), name="memory")

    async def close(self) -> None:
        """Stop at once: calls of the model are cut off, their entries given back."""
        worker, self._worker = self._worker, None
        tasks = [*self._tasks, *([worker] if worker is not None else [])]
        await whole(self._stop(tasks))

    # --- the worker ---

    async def _run(self) -> None:
        drain = _Drain()
        while True:
            self._wake.clear()
            try:
                fresh, self._fresh = self._fresh, []
                for ticket in fresh:
                    with contextlib.suppress(StorageError):  # its thread is gone
                        await ticket
                await self._fill(drain, set())
                wait = await self._until_due()
            except StorageError as error:
                logger.warning("memory: the queue cannot be read: %s", error)
                wait = LOOK
            awake = asyncio.create_task(self._wake.wait())
            try:
                await asyncio.wait(
                    {awake, *self._tasks}, timeout=wait, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                awake.cancel()

    async def _until_due(self) -> float:
        """Seconds until the next entry is due, at most LOOK."""
        due = await self._queue.next_due()
        if due is None or len(self._tasks) >= PARALLEL:
            return LOOK
        left = due - self._clock()
        return min(LOOK, left) if left > 0 else BUSY_LOOK

    # --- both ---

    async def _fill(self, drain: _Drain, mine: set[asyncio.Task[None]]) -> None:
        """Begin with groups until there is no room or nothing to claim."""
        while len(self._tasks) < PARALLEL:
            due = await self._queue.next_due(drain.user_id) if drain.force else None
            if drain.looked and drain.force and (due is None or due >= drain.horizon):
                return  # a claim could only bring back what has failed meanwhile
            async with self._claiming:
                group = await self._claims.take(drain.user_id, force=drain.force)
            drain.looked = True
            if not group:
                return
            ids = [entry.entry_id for entry in group]
            if drain.force and set(ids) <= drain.failed:
                drain.aside.append((ids, self._clock() + _wait(group, self._config)))
            elif due is not None and due > self._clock() and _failures(group) > len(WAITS):
                drain.aside.append((ids, due))
            else:
                self._begin(group, drain, mine)

    def _begin(
        self, group: list[QueuedExchange], drain: _Drain, mine: set[asyncio.Task[None]]
    ) -> None:
        task = asyncio.create_task(self._work(group, drain), name="memory of a thread")
        self._tasks[task] = group[0].user_id
        task.add_done_callback(self._ended)
        mine.add(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        self._wake.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("memory: an extraction failed", exc_info=error)

    async def _work(self, group: list[QueuedExchange], drain: _Drain) -> None:
        """Take a claimed group in; whatever happens, its entries are completed or given back."""
        left = [entry.entry_id for entry in group]
        again = self._clock() + _wait(group, self._config)
        try:
            for batch in batches(group):
                await self._take_in(batch)
                _, cancelled = await whole(self._queue.complete(batch.ids))
                drain.done += len(batch.ids)
                left = [entry_id for entry_id in left if entry_id not in batch.ids]
                if cancelled:
                    raise asyncio.CancelledError
        except (ModelError, LimitError, StorageError) as error:
            tell = logger.error if _failures(group) >= len(WAITS) else logger.warning
            tell(
                "memory: %d exchanges of thread %s wait, attempt %d failed: %s",
                len(left),
                group[0].thread_id,
                max(entry.attempts for entry in group),
                error,
            )
        except asyncio.CancelledError:
            again = self._clock()
            raise
        finally:
            if left:
                drain.failed.update(left)
                drain.horizon = min(drain.horizon, again)
                await whole(self._claims.give_back(left, again))

    async def _take_in(self, batch: Batch) -> None:
        """One call of the model, applied to the newest document."""
        user_id = batch.entries[0].user_id
        document = await self._storage.load(user_id)
        if not batch.exchanges or all(entry in document.taken for entry in batch.ids):
            return
        words = "\n".join(each.user for each in batch.exchanges)
        found = await self._storage.search(user_id, words, limit=RELATED)
        related = [fact for fact, _ in found]
        extraction = await self._updater.extract(user_id, document, batch.exchanges, related)
        last = batch.exchanges[-1]
        origin = Origin(batch.ids, Source(last.thread, last.message), last.at)

        def mutate(newest: MemoryDocument) -> tuple[MemoryDocument, str] | None:
            return apply(newest, extraction, origin, max_facts=self._config.max_facts)

        await self._storage.update(user_id, mutate)

    async def _stop(
        self, tasks: Collection[asyncio.Task[None]], drain: _Drain | None = None
    ) -> None:
        """Cancel, wait for the end, give back what was put aside."""
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for ids, due in drain.aside if drain is not None else ():
            await self._claims.give_back(ids, due)
        with contextlib.suppress(StorageError):
            await self._claims.pay()


def entry_id_of(thread_key: str, message: str) -> str:
    """The id of the entry of a message; a random one when the message has none."""
    if not message:
        return f"mem-{uuid.uuid4().hex}"
    return f"mem-{hashlib.sha256(f'{thread_key}/{message}'.encode()).hexdigest()[:32]}"


def _wait(group: Sequence[QueuedExchange], config: MemoryBackendConfig) -> float:
    """Seconds until a group that has failed is tried again: after all that is fresh."""
    failures = max(entry.attempts for entry in group)
    wait = WAITS[failures - 1] if failures <= len(WAITS) else LONG_WAIT
    return max(wait, 2.0 * config.debounce_seconds)


def _failures(group: Sequence[QueuedExchange]) -> int:
    """How often every entry of a claimed group had been claimed before."""
    return min(entry.attempts for entry in group) - 1
