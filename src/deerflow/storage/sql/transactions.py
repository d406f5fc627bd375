"""Transactions of the writer: a group of operations at once, one by one when one of them fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from deerflow.errors import DeerFlowError, LeaseLostError, StorageError, ThreadGoneError
from deerflow.storage.sql.batch import Batch, Mark
from deerflow.storage.sql.driver import (
    Connection,
    Database,
    DatabaseError,
    ServerError,
    translated,
)
from deerflow.storage.sql.notifier import Notifier
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
_REFUSALS = (ThreadGoneError, LeaseLostError)


def _known(error: Exception) -> DeerFlowError:
    """What the waiter is told."""
    if isinstance(error, DeerFlowError):
        return error
    if isinstance(error, DatabaseError):
        return translated(error)
    return StorageError(f"A record cannot be stored: {type(error).__name__}: {error}.")


LOST = "The runs of this worker were given to another."


class Job:
    """A queued operation, its ticket and the worker in whose name it writes ("" = in no one's)."""

    __slots__ = ("ticket", "work", "worker")

    def __init__(self, work: Work[Any], ticket: Ticket[Any], worker: str = "") -> None:
        self.work = work
        self.ticket = ticket
        self.worker = worker

    def refused(self, batch: Batch) -> bool:
        """Whether the worker has lost its place."""
        return self.worker != "" and not batch.holds(self.worker)


class Debts:
    """Failures that nobody has been told of, by scope."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owed: dict[str, DeerFlowError] = {}

    def owe(self, ticket: Ticket[Any], error: DeerFlowError) -> None:
        """Keep a failure that nobody waits for until the next checkpoint of its scope.

        A write that is refused (its thread was deleted, its worker replaced) is no failure of the
        storage, and the checkpoints that come after it are refused as well.
        """
        if not (ticket.awaited or ticket.guarded or isinstance(error, _REFUSALS)):
            with self._lock:
                self._owed.setdefault(ticket.scope, error)

    def has(self, scope: str) -> bool:
        """Whether the scope owes a failure."""
        return scope in self._owed

    def take(self, scope: str) -> DeerFlowError | None:
        """The scope's failure, told now."""
        with self._lock:
            return self._owed.pop(scope, None)

    def restore(self, scope: str, error: DeerFlowError) -> None:
        """What was told is to be told again: the transaction in which it was is undone."""
        with self._lock:
            self._owed.setdefault(scope, error)

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
    with one savepoint per operation, so that a failure takes no neighbour along. An operation in
    the name of a worker that has lost its place fails (see `Workers.fence`).
    """

    def __init__(
        self, database: Database, connection: Connection, debts: Debts, notifier: Notifier
    ) -> None:
        self._database = database
        self._connection = connection
        self._debts = debts
        self._notifier = notifier

    def run(self, jobs: Sequence[Job]) -> tuple[Batch, list[Outcome]]:
        """Commit a group; gives what followers hear and the outcome of each.

        A group that certainly changed nothing, because the server went away or chose it as the
        victim of a deadlock, is run again.
        """
        tries = 0
        while True:
            batch, told = self._batch(), list[tuple[str, DeerFlowError]]()
            try:
                return batch, self._transact(jobs, batch, told)
            except DatabaseError as error:
                self._rollback()
                for scope, owed in told:
                    self._debts.restore(scope, owed)
                tries += 1
                wait = self._database.again(error, tries)
                if wait is None:
                    known = translated(error)
                    return self._batch(), [(job.ticket, None, known) for job in jobs]
                time.sleep(wait)

    def _batch(self) -> Batch:
        return Batch(self._connection, self._database.dialect)

    def _transact(
        self, jobs: Sequence[Job], batch: Batch, told: list[tuple[str, DeerFlowError]]
    ) -> list[Outcome]:
        self._begin(jobs)
        outcome = self._all(jobs, batch)
        if outcome is None:
            self._rollback()
            batch.undo(Mark())
            self._begin(jobs)
            outcome = [(job.ticket, *self._one(job, batch, told)) for job in jobs]
        batch.save()
        self._notifier.announce(batch)
        self._commit()
        return outcome

    def _begin(self, jobs: Sequence[Job]) -> None:
        alone = any(not job.ticket.scope for job in jobs)
        self._database.begin(self._connection, alone=alone)

    def _commit(self) -> None:
        try:
            self._connection.execute("COMMIT")
        except DatabaseError:
            if not self._database.landed(self._connection):
                raise

    def _all(self, jobs: Sequence[Job], batch: Batch) -> list[Outcome] | None:
        """All at once, None when one of them fails."""
        if any(job.ticket.guarded and self._debts.has(job.ticket.scope) for job in jobs):
            return None
        for job in jobs:  # workers before threads: whoever replaces one takes the same order
            if job.refused(batch):
                return None
        outcome: list[Outcome] = []
        try:
            self._database.lock(batch, sorted({job.ticket.scope for job in jobs} - {""}))
            for job in jobs:
                if job.refused(batch):  # replaced by an operation of this very group
                    return None
                outcome.append((job.ticket, job.work(batch), None))
        except _FAILURES:
            return None
        return outcome

    def _one(
        self, job: Job, batch: Batch, told: list[tuple[str, DeerFlowError]]
    ) -> tuple[Any, DeerFlowError | None]:
        """One operation in its savepoint; a driver's error that ended the transaction is raised."""
        ticket = job.ticket
        if job.refused(batch):
            return None, LeaseLostError(LOST)
        if ticket.guarded:
            owed = self._debts.take(ticket.scope)
            if owed is not None:
                told.append((ticket.scope, owed))
                return None, owed
        value, error = self._saved(job, batch)
        if isinstance(error, ServerError) and error.raced:  # now it can be seen
            value, error = self._saved(job, batch)
        if error is None:
            return value, None
        known = _known(error)
        self._debts.owe(ticket, known)
        return None, known

    def _saved(self, job: Job, batch: Batch) -> tuple[Any, Exception | None]:
        """Value or error of an operation; after an error nothing of it is left."""
        connection, mark = self._connection, batch.mark()
        connection.execute("SAVEPOINT one")
        try:
            self._database.lock(batch, [job.ticket.scope] if job.ticket.scope else [])
            value = job.work(batch)
            batch.save()
            connection.execute("RELEASE one")
        except _FAILURES as error:
            if isinstance(error, DatabaseError) and self._spoils(error):
                raise
            connection.execute("ROLLBACK TO one")
            connection.execute("RELEASE one")
            batch.undo(mark)
            return None, error
        return value, None

    def _spoils(self, error: Exception) -> bool:
        """Whether a driver's error takes the whole transaction along."""
        whole = isinstance(error, ServerError) and error.whole
        return whole or not self._connection.in_transaction

    def _rollback(self) -> None:
        if self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except DatabaseError:
                if self._connection.in_transaction:
                    raise
