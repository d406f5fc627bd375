"""Who executes runs, and what waits for it: workers, the queue of runs, webhooks.

Contracts like those of `protocol.py`, which hands them on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from deerflow.storage.protocol import RunRow, ThreadRow

Strategy = Literal["reject", "enqueue", "interrupt", "rollback"]
"""What becomes of a new run when its thread has an unfinished one."""

Cancel = Literal["interrupt", "rollback"]
"""interrupt keeps what the run has done; rollback removes the run and what it wrote."""


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A process that executes runs.

    Attributes:
        worker_id: new and random at each start; `RunRow.owner` of the runs that it executes.
        process: `deerflow.storage.owner.this_owner()` of it.
        started_at: seconds by the database's clock.
        expires_at: end of its lease, seconds by the database's clock.
    """

    worker_id: str
    process: str
    started_at: float
    expires_at: float


@runtime_checkable
class Workers(Protocol):
    """Leases of worker processes, by the clock of the database.

    Fence: while a thread is entered in `Workers.fence`, every write of this storage in that
    thread's scope checks, in its own transaction, that the worker's row still exists, and is
    refused with LeaseLostError when it does not. Taking over removes the row first, so late writes
    of a worker that was only paused never land.
    """

    async def register(self, worker_id: str, process: str, *, seconds: float) -> WorkerRow:
        """Enter a worker with a lease of so many seconds."""
        ...

    async def beat(self, worker_id: str, *, seconds: float) -> bool:
        """Renew the lease; False when the worker was taken over (or never entered)."""
        ...

    async def dead(self) -> list[WorkerRow]:
        """Workers whose lease has run out, or whose process of this machine is gone."""
        ...

    async def living(self) -> list[WorkerRow]:
        """Workers whose lease holds."""
        ...

    async def take_over(self, worker_id: str) -> list[RunRow] | None:
        """Remove a dead worker and set its running runs back to pending, in one transaction.

        Its runs get owner "" and keep their attempt. Exactly one caller gets the list; the others
        get None, and so does everybody while the lease holds and the process lives.
        """
        ...

    async def retire(self, worker_id: str) -> list[RunRow]:
        """The worker leaves by itself: like `take_over`, whatever its lease says."""
        ...

    def fence(self, thread_key: str, worker_id: str | None) -> None:
        """Bind this process's writes of a thread to a worker; None unbinds."""
        ...


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run that is to be executed by whoever is free.

    Attributes:
        run_id: hex of a UUID.
        input: JSON object, `{"task": …, …}`, see `deerflow.runtime.request.RunRequest.to_dict`.
        config: JSON object, as in RunRow.
        metadata: the client's JSON object.
        strategy: when the thread has an unfinished run.
        not_before: UTC seconds or None.
        priority: higher goes first; interactive 10, in the background 0.
        idempotency_key: of the user; the same key again gives the run that is there.
        event: its first event, in the same transaction.
        delivery: a webhook of it, in the same transaction.
    """

    run_id: str
    input: dict[str, Any]
    config: dict[str, Any] = field(default_factory=dict[str, Any])
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    strategy: Strategy = "reject"
    not_before: float | None = None
    priority: int = 0
    idempotency_key: str | None = None
    event: tuple[str, dict[str, Any]] | None = None
    delivery: Delivery | None = None


@dataclass(frozen=True, slots=True)
class Submitted:
    """What `RunQueue.submit` did.

    Attributes:
        run: the row, new or found by its key.
        created: False when it was found.
        ready: whether it may start now (nothing before it, no delay).
        cancelled: unfinished runs of the thread that were asked to stop for it, oldest first.
    """

    run: RunRow
    created: bool
    ready: bool
    cancelled: tuple[RunRow, ...] = ()


@runtime_checkable
class RunQueue(Protocol):
    """Runs that wait. Within a thread the order is that of submission; nothing overtakes.

    A pending run is ready when `not_before` has passed and no earlier run of its thread is
    unfinished or still to be taken back. The end of a run (`Threads.end_run`) makes the next one
    ready, in its transaction.
    """

    async def submit(self, thread: ThreadRow, run: NewRun, *, new: bool) -> Submitted | None:
        """Insert a pending run and its event in one transaction; the thread turns busy.

        With strategy interrupt or rollback, every unfinished run of the thread is asked to stop
        (`cancel`); those still pending end as cancelled at once, with their `run_ended` event.

        Args:
            thread: from `Threads.get`, or `ThreadRow.new`.
            run: what to insert.
            new: make the thread as well.

        Returns:
            None when `new` and the user has a thread of this id by now; nothing is written then.

        Raises:
            ConflictError: strategy reject and the thread has an unfinished run.
            ThreadGoneError: the thread was deleted.
        """
        ...

    async def claim(self, run_id: str, worker_id: str) -> RunRow | None:
        """Pending → running for a worker, one more attempt, if it is ready.

        Returns:
            None when it is not pending, not ready, or the worker has no row.
        """
        ...

    async def ready(self, *, limit: int = 100, pending_for: float = 0.0) -> list[RunRow]:
        """Pending runs that may start, by priority, then oldest first.

        Args:
            limit: how many at most.
            pending_for: only those that have been ready for so many seconds.
        """
        ...

    async def next_in(self, thread_key: str) -> RunRow | None:
        """The thread's ready run, None when there is none."""
        ...

    async def ask_to_stop(self, run_id: str, action: Cancel) -> RunRow | None:
        """Ask for the end of a run: durable, and heard by whoever executes it.

        A pending run ends as cancelled at once. For a running one `cancel` is set and the event
        `cancel_requested` written; its worker carries it out. The first request counts, but
        rollback replaces interrupt.

        Returns:
            The row as it now is; None when unknown.
        """
        ...

    async def to_stop(self, worker_id: str) -> list[str]:
        """Ids of the running runs of a worker that somebody asked to stop."""
        ...

    async def to_take_back(self, *, ended_for: float = 0.0, limit: int = 100) -> list[RunRow]:
        """Runs that were stopped to leave nothing behind and are still here, oldest first.

        Args:
            ended_for: only those that ended so many seconds ago: their worker removes them itself.
            limit: how many at most.
        """
        ...

    async def put_back(self, run_id: str) -> RunRow | None:
        """Running or ended with interrupted, error or cancelled → pending, to be gone on with.

        One that had ended calls its webhooks again at its next end.
        For a run whose approvals were decided, or that its worker hands over; only that one may
        put back a run that is running. One that waits already stays as it is. None when it ended
        with success, is unknown, another run of the thread is unfinished, or a living process
        that is no worker executes it.
        """
        ...

    async def remove(self, run_id: str) -> None:
        """Delete an ended run with its events, deltas and journal (rollback, DELETE of a run).

        The log's seq keeps its gap: numbers are never used twice.

        Raises:
            ConflictError: the run has not ended.
        """
        ...

    async def of_user(
        self,
        user_id: str,
        *,
        limit: int = 50,
        before: float | None = None,
        status: str | None = None,
    ) -> list[tuple[ThreadRow, RunRow]]:
        """Runs of a user across threads, newest first; `before` = created_at of the last seen."""
        ...

    async def depth(self) -> dict[str, int]:
        """Number of unfinished runs by status, of all users."""
        ...


@dataclass(frozen=True, slots=True)
class Delivery:
    """A webhook to be called when a run has ended.

    Attributes:
        delivery_id: unique; the receiver knows a repeat by it.
        user_id: owner.
        thread_key: goes with the thread.
        run_id: the run.
        url: where to.
        payload: JSON object.
        status: waiting (the run has not ended), pending, done or failed.
        attempts: so far.
        due_at: UTC seconds.
    """

    delivery_id: str
    user_id: str
    thread_key: str
    run_id: str
    url: str
    payload: dict[str, Any] = field(default_factory=dict[str, Any])
    status: Literal["waiting", "pending", "done", "failed"] = "waiting"
    attempts: int = 0
    due_at: float = 0.0


@runtime_checkable
class Deliveries(Protocol):
    """The outbox of webhooks. `end_run` turns a run's waiting rows into pending ones."""

    async def add(self, row: Delivery) -> None:
        """Insert; the same delivery_id twice is once."""
        ...

    async def claim(self, *, now: float, seconds: float, limit: int = 10) -> list[Delivery]:
        """Take pending rows that are due, for so many seconds, one more attempt each."""
        ...

    async def settle(
        self, delivery_id: str, status: Literal["pending", "done", "failed"], *, due_at: float = 0.0
    ) -> None:
        """Write how an attempt ended; pending again at `due_at`."""
        ...

    async def of_run(self, run_id: str) -> list[Delivery]:
        """Rows of a run."""
        ...
