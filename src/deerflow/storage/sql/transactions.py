"""Transactions of the writer: a group of operations at once, one by one when one of them fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from deerflow.errors import DeerFlowError, StorageError, ThreadGoneError
from deerflow.storage.sql.batch import Batch, Mark
from deerflow.storage.sql.driver import Connection, DatabaseError, translated
from deerflow.storage.ticket import Ticket

T = TypeVar("T")
Work = Callable[[Batch], T]
Outcome = tuple[Ticket[Any], Any, DeerFlowError | None]
"""A ticket with its value or error."""


_FAILURES = (
    DeerFlowError,
    DatabaseError,
    TypeError,
    ValueError,
    LookupError,
    ArithmeticError,
    AttributeError,
)
"""What one operation may raise without taking the writer, and everybody else's writes, along."""


def _known(error: Exception) -> DeerFlowError:
    """What the waiter is told."""
    if isinstance(error, DeerFlowError):
        return error
    if isinstance(error, DatabaseError):
        return translated(error)
    return StorageError(f"A record cannot be stored: {type(error).__name__}: {error}.")


class Job:
    """A queued operation and its ticket."""

    __slots__ = ("ticket", "work")

    def __init__(self, work: Work[Any], ticket: Ticket[Any]) -> None:
        self.work = work
        self.ticket = ticket


class Debts:
    """Failures that nobody has been told of, by scope."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owed: dict[str, DeerFlowError] = {}

    def owe(self, ticket: Ticket[Any], error: DeerFlowError) -> None:
        """Keep a failure that nobody waits for until the next checkpoint of its scope.

        A refused write to a deleted thread is no failure of the storage, and that thread's
        checkpoints are refused as well.
        """
        if not (ticket.awaited or ticket.guarded or isinstance(error, ThreadGoneError)):
            with self._lock:
                self._owed.setdefault(ticket.scope, error)

    def has(self, scope: str) -> bool:
        """Whether the scope owes a failure."""
        return scope in self._owed

    def take(self, scope: str) -> DeerFlowError | None:
        """The scope's failure, told now."""
        with self._lock:
            return self._owed.pop(scope, None)

    def forgive(self, error: DeerFlowError) -> None:
        """The failure reached a caller on another way."""
        with self._lock:
            for scope in [s for s, known in self._owed.items() if known is error]:
                del self._owed[scope]

    def collect(self) -> list[DeerFlowError]:
        """Every failure, told now."""
        with self._lock:
            owed, self._owed = self._owed, {}
        return list(owed.values())


class Transactions:
    """Runs groups of operations on the writing connection.

    A group first runs without savepoints; when an operation fails it is rolled back and run again
    with one savepoint per operation, so that a failure takes no neighbour along.
    """

    def __init__(self, connection: Connection, debts: Debts) -> None:
        self._connection = connection
        self._debts = debts

    def run(self, jobs: Sequence[Job]) -> tuple[Batch, list[Outcome]]:
        """Commit a group; gives what followers hear and the outcome of each."""
        batch = Batch(self._connection)
        try:
            return batch, self._transact(jobs, batch)
        except DatabaseError as error:
            self._rollback()
            known = translated(error)
            return Batch(self._connection), [(job.ticket, None, known) for job in jobs]

    def _transact(self, jobs: Sequence[Job], batch: Batch) -> list[Outcome]:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        outcome = self._all(jobs, batch)
        if outcome is None:
            self._rollback()
            batch.undo(Mark())
            connection.execute("BEGIN IMMEDIATE")
            outcome = [(job.ticket, *self._one(job, batch)) for job in jobs]
        batch.save()
        connection.execute("COMMIT")
        return outcome

    def _all(self, jobs: Sequence[Job], batch: Batch) -> list[Outcome] | None:
        """All at once, None when one of them fails."""
        if any(job.ticket.guarded and self._debts.has(job.ticket.scope) for job in jobs):
            return None
        try:
            return [(job.ticket, job.work(batch), None) for job in jobs]
        except _FAILURES:
            return None

    def _one(self, job: Job, batch: Batch) -> tuple[Any, DeerFlowError | None]:
        """One operation in its savepoint; a driver's error that ended the transaction is raised."""
        ticket, connection = job.ticket, self._connection
        if ticket.guarded:
            owed = self._debts.take(ticket.scope)
            if owed is not None:
                return None, owed
        mark = batch.mark()
        connection.execute("SAVEPOINT one")
        try:
            value = job.work(batch)
            batch.save()
            connection.execute("RELEASE one")
        except _FAILURES as error:
            if isinstance(error, DatabaseError) and not connection.in_transaction:
                raise
            connection.execute("ROLLBACK TO one")
            connection.execute("RELEASE one")
            batch.undo(mark)
            known = _known(error)
            self._debts.owe(ticket, known)
            return None, known
        return value, None

    def _rollback(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
