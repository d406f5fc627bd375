"""The one writer of a process: operations in order, committed in groups."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from deerflow.errors import DeerFlowError, StorageError
from deerflow.storage.follow import Hub
from deerflow.storage.sql.driver import Database, DatabaseError
from deerflow.storage.sql.fences import Fences
from deerflow.storage.sql.hearing import Hearing
from deerflow.storage.sql.notifier import Notifier
from deerflow.storage.sql.transactions import Debts, Job, Outcome, Transactions, Work
from deerflow.storage.ticket import Ticket

T = TypeVar("T")

LINGER_SECONDS = 0.02
"""How long a write that nobody awaits may wait for company (architecture, decision 6)."""


class Writer:
    """A thread that owns the writing connection.

    `submit` queues in order and returns at once. A batch starts when somebody awaits a ticket, or
    LINGER_SECONDS after the first unawaited one. A batch first runs without savepoints; when an
    operation fails it is rolled back and run again with one savepoint per operation, so that a
    failure takes no neighbour along.

    Args:
        database: where to write, its schema up to date.
        hub: followers to tell after each commit.
        notifier: tells other processes of commits, and this one of theirs.

    Attributes:
        dialect: of its database.
        fences: threads whose writes are those of a worker.
        on_deleted: called in the writer's thread with the keys of threads that were deleted.
    """

    def __init__(self, database: Database, hub: Hub, notifier: Notifier) -> None:
        self.dialect = database.dialect
        self._database = database
        self._connection = database.connect()
        self._hub = hub
        self._notifier = notifier
        self.on_deleted: Callable[[Sequence[str]], None] = lambda keys: None
        self._hearing = Hearing(hub, growing_ids=database.growing_ids)
        self._unheard = False
        self._lock = threading.Lock()
        self._ready = threading.Condition(self._lock)
        self._queue: list[Job] = []
        self._last: dict[str, Ticket[Any]] = {}
        self._debts = Debts()
        self.fences = Fences()
        self._transactions = Transactions(database, self._connection, self._debts, notifier)
        self._go = self._finished = self._closing = False
        self._calling: asyncio.AbstractEventLoop | None = None
        self._timing: asyncio.AbstractEventLoop | None = None
        self._reclaim = False
        self._stopped: StorageError | None = None
        notifier.start(self._hearing.hear)
        notifier.poll(self._connection)  # from now on
        self._thread = threading.Thread(target=self._main, name="deerflow-writer", daemon=True)
        self._thread.start()

    # --- callers' side ---

    def submit(
        self, work: Work[T], *, scope: str = "", guarded: bool = False, fenced: bool = True
    ) -> Ticket[T]:
        """Queue an operation.

        Args:
            work: runs in the writer's thread, perhaps twice; it may change nothing but the
                database and the batch.
            scope: thread key that it belongs to.
            guarded: fail when an earlier unawaited write of the scope failed.
            fenced: it is of the scope's worker, if it has one (see `Workers.fence`).
        """
        ticket: Ticket[T] = Ticket(
            scope, self._lock, guarded=guarded, on_wait=self.hurry, on_read=self._debts.forgive
        )
        with self._lock:
            if self._finished or self._stopped is not None:
                ticket.settle(None, self._stopped or StorageError("The storage is closed."))
                return ticket
            self._queue.append(Job(work, ticket, self.fences.worker_of(scope) if fenced else ""))
            self._last[scope] = self._last[""] = ticket
        if self._timing is None or self._timing.is_closed():
            self._later()
        return ticket

    async def settle(self, scope: str = "") -> None:
        """Return when what was queued before for the scope ("" = all) has been tried."""
        last = self._last.get(scope)
        if last is not None and not last.done:
            await last.settled()

    async def flush(self) -> None:
        """Return when all is durable.

        Raises:
            DeerFlowError: the first failure of an unawaited write since the last flush or
                checkpoint.
        """
        errors: list[DeerFlowError] = []
        try:
            await self.submit(lambda batch: None)
        except DeerFlowError as error:
            errors.append(error)
        errors.extend(self._debts.collect())
        if errors:
            raise errors[0]

    async def finish(self) -> None:
        """Flush and take no more. Raises like `flush`."""
        try:
            if self._stopped is None and not self._finished:
                await self.flush()
        finally:
            with self._lock:
                self._finished = True

    async def close(self) -> None:
        """Stop the thread and close the connection, the log of SQLite folded into the file."""
        with self._lock:
            self._finished = self._closing = True
            self._ready.notify()
        await asyncio.to_thread(self._thread.join)
        await asyncio.to_thread(self._notifier.close)

    def watch(self) -> None:
        """Somebody follows now: begin to look for other processes' commits."""
        self._notifier.watch()
        with self._lock:
            self._ready.notify()

    def _later(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # no loop here: nobody else would wake the writer
            self._wake()
            return
        self._timing = loop
        loop.call_later(LINGER_SECONDS, self._tick)

    def _tick(self) -> None:
        """The linger is over; one timer serves whatever was queued in its time."""
        self._timing = None
        if self._queue:
            self._wake()

    def hurry(self) -> None:
        """Start the batch after this round of the loop, so that parallel callers share it."""
        loop = asyncio.get_running_loop()
        if self._calling is not loop:
            self._calling = loop
            loop.call_soon(self._wake)

    def _wake(self) -> None:
        with self._lock:
            self._calling = None
            self._go = True
            self._ready.notify()

    # --- the writer's thread ---

    def _main(self) -> None:
        try:
            while self._turn():
                pass
        finally:
            self._stop()

    def _turn(self) -> bool:
        with self._ready:
            if not (self._go or self._closing or self._reclaim):
                self._ready.wait(self._notifier.poll_seconds if self._hub.watched else None)
            jobs: list[Job] = []
            if self._go or self._closing:
                jobs, self._queue = self._queue, []
                self._go = False
            closing = self._closing
        if jobs:
            self._run(jobs)
        elif self._reclaim:
            more = self._database.tidy(self._connection, last=closing)
            self._reclaim = more and not closing
        elif closing:
            return False
        if self._notifier.poll_seconds is not None and self._hub.watched:
            self._look()
        return True

    def _stop(self) -> None:
        with self._lock:
            self._stopped = StorageError("The storage is closed.")
            jobs, self._queue = self._queue, []
        self._resolve([(job.ticket, None, self._stopped) for job in jobs])
        self._connection.close()

    def _run(self, jobs: Sequence[Job]) -> None:
        batch, outcome = self._transactions.run(jobs)
        self._reclaim = self._reclaim or bool(batch.deleted)
        self._hub.publish(batch)
        self._notifier.tell(batch)
        if batch.deleted:
            self.on_deleted(batch.deleted)
        self._resolve(outcome)

    def _resolve(self, outcome: Sequence[Outcome]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
        with self._lock:
            guarded = {ticket.scope for ticket, _, _ in outcome if ticket.guarded}
            for ticket, value, error in outcome:
                if error is not None and ticket.scope not in guarded:
                    self._debts.owe(ticket, error)
                for loop, future in ticket.settle(value, error):
                    by_loop.setdefault(loop, []).append(future)
                for scope in {ticket.scope, ""}:
                    if self._last.get(scope) is ticket:
                        del self._last[scope]
        for loop, futures in by_loop.items():
            try:
                loop.call_soon_threadsafe(_set, futures)
            except RuntimeError:  # the loop is closed: nobody waits any more
                continue

    def _look(self) -> None:
        """Hear what other processes have committed, where they do not tell by themselves."""
        try:
            if self._unheard or self._notifier.poll(self._connection):
                self._unheard = True
                self._hearing.hear(self._connection, None)
                self._unheard = False
        except DatabaseError:  # the database is away or busy: the next look comes soon
            return


def _set(futures: Sequence[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
