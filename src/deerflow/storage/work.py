"""Work that outlives a process: approvals, batches, queued memories and what users have spent.

Contracts like those of `protocol.py`, which hands them on. Everything here is claimed by update:
no process has to be alive for a row to be decided, expired or taken over.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, runtime_checkable

from deerflow.errors import StorageError

ApprovalStatus = Literal["pending", "approved", "rejected", "expired", "superseded"]
ItemStatus = Literal["pending", "running", "waiting", "done", "failed"]


@dataclass(frozen=True, slots=True)
class ApprovalRow:
    """A tool call that waits, or waited, for a human.

    Attributes:
        approval_id: derived from the call (thread, run, namespace, message, index), so that asking
            twice is asking once.
        user_id: who may decide.
        thread_id: the client's thread id.
        thread_key: internal thread id.
        run_id: the run that asked.
        namespace: "" for the lead, else the child's name.
        message_id: AI message that holds the call.
        index: position of the call in it, from 0.
        tool: its name.
        args: as the model gave them.
        reason: why a human is asked, for people.
        default: what expiry means: "deny" or "allow".
        created_at: UTC seconds.
        expires_at: UTC seconds or None for never.
        status: pending until the first decision, which counts.
        decided_at: UTC seconds or None.
        decided_by: who or what decided, "" while pending.
        edited: arguments that replace `args`, None when unchanged.
        note: reason of a rejection, or "".
    """

    approval_id: str
    user_id: str
    thread_id: str
    thread_key: str
    run_id: str
    namespace: str
    message_id: str
    index: int
    tool: str
    args: dict[str, Any]
    reason: str = ""
    default: Literal["deny", "allow"] = "deny"
    created_at: float = 0.0
    expires_at: float | None = None
    status: ApprovalStatus = "pending"
    decided_at: float | None = None
    decided_by: str = ""
    edited: dict[str, Any] | None = None
    note: str = ""

    def decided(self, decision: Decision) -> ApprovalRow:
        """This row as a decision leaves it; a human's that comes too late finds it expired."""
        late = self.expires_at is not None and self.expires_at <= decision.at
        if late and decision.status in ("approved", "rejected"):
            decision = Decision("expired", "expiry", decision.at)
        return replace(
            self,
            status=decision.status,
            decided_at=decision.at,
            decided_by=decision.by,
            edited=decision.edited,
            note=decision.note,
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """What to write into a pending approval.

    Attributes:
        status: approved, rejected, expired or superseded.
        by: who decides ("local", a user id, "expiry").
        at: UTC seconds.
        edited: arguments that replace the asked ones, only with approved.
        note: reason, for the model and the log.
    """

    status: Literal["approved", "rejected", "expired", "superseded"]
    by: str
    at: float
    edited: dict[str, Any] | None = None
    note: str = ""


@runtime_checkable
class Approvals(Protocol):
    """Calls that wait for a human. Rows go with their thread."""

    async def request(self, row: ApprovalRow) -> ApprovalRow:
        """Insert, or return the row that is there already; durable when it returns."""
        ...

    async def get(self, user_id: str, approval_id: str) -> ApprovalRow | None:
        """One row; None when unknown or someone else's."""
        ...

    async def list(
        self,
        user_id: str,
        *,
        thread_key: str | None = None,
        status: ApprovalStatus | None = "pending",
        limit: int = 100,
    ) -> list[ApprovalRow]:
        """Rows of a user, oldest first; `status=None` lists all."""
        ...

    async def decide(
        self, user_id: str, approval_id: str, decision: Decision
    ) -> tuple[ApprovalRow, bool]:
        """Decide a pending approval.

        An approval or rejection at `expires_at` or later comes too late: the row expires instead.

        Returns:
            The row as it now is, and whether this very decision is the one that counts.

        Raises:
            NotFoundError: unknown or someone else's.
        """
        ...

    async def expire(self, now: float, *, thread_key: str | None = None) -> list[ApprovalRow]:
        """Turn pending rows whose `expires_at` has passed into expired ones; returns them."""
        ...

    async def supersede(self, thread_key: str, *, at: float) -> list[ApprovalRow]:
        """Turn all pending rows of a thread into superseded ones; returns them."""
        ...


@dataclass(frozen=True, slots=True)
class BatchRow:
    """A job of many independent items. `batch_id` is derived from the call that asked for it.

    Attributes:
        batch_id: its id.
        user_id: owner.
        thread_key: internal thread id; the batch goes with the thread.
        run_id: the run that asked.
        total: number of items.
        created_at: UTC seconds.
        settings: JSON object of the executor (template, type of child, limits).
    """

    batch_id: str
    user_id: str
    thread_key: str
    run_id: str
    total: int
    created_at: float = 0.0
    settings: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class BatchItem:
    """One item: `item` is JSON text as given, `result` JSON text or None.

    `attempts` counts claims; `owner` is the process that runs it.
    """

    batch_id: str
    index: int
    item: str
    status: ItemStatus = "pending"
    attempts: int = 0
    result: str | None = None
    owner: str = ""


@runtime_checkable
class Batches(Protocol):
    """Batches and their items; everything is idempotent."""

    async def create(self, row: BatchRow, items: Sequence[str]) -> BatchRow:
        """Insert batch and items in one transaction, or return the batch that is there already."""
        ...

    async def get(self, batch_id: str) -> BatchRow | None:
        """One batch."""
        ...

    async def reopen(self, batch_id: str) -> int:
        """Back to pending: running items whose owner is dead or is this process, and waiting ones.

        Called when a batch is entered (again); returns how many.
        """
        ...

    async def claim(self, batch_id: str, limit: int) -> list[BatchItem]:
        """Take pending items in order: running, owned by this process, one more attempt."""
        ...

    def settle(
        self, batch_id: str, index: int, status: ItemStatus, result: str | None = None
    ) -> Awaitable[None]:
        """Write how an item ended (or that it waits, or is pending again); queued in order.

        An item that is done stays done: its first result counts.

        Raises:
            NotFoundError: when awaited, the batch has no such item.
            ThreadGoneError: when awaited, there is no such batch (any more).
        """
        ...

    async def items(self, batch_id: str, *, after: int = -1, limit: int = 1000) -> list[BatchItem]:
        """Items with index > after, in order."""
        ...

    async def counts(self, batch_id: str) -> dict[ItemStatus, int]:
        """Number of items by status; statuses without items may be left out."""
        ...


@dataclass(frozen=True, slots=True)
class QueuedExchange:
    """An exchange that waits for the extraction of memories.

    Attributes:
        entry_id: unique, made by the writer; the memory remembers which ids it has taken in.
        user_id: whose memory.
        thread_id: the client's thread id, for the source of facts.
        thread_key: internal thread id; entries go with their thread.
        payload: JSON object, see `deerflow.memory.protocol.Exchange`.
        queued_at: UTC seconds.
        attempts: claims so far.
    """

    entry_id: str
    user_id: str
    thread_id: str
    thread_key: str
    payload: dict[str, Any]
    queued_at: float
    attempts: int = 0


@runtime_checkable
class MemoryQueue(Protocol):
    """The durable queue of exchanges. Entries of one (user, thread) are claimed together."""

    def enqueue(self, entry: QueuedExchange, *, debounce: float, ceiling: float) -> Awaitable[None]:
        """Queue; every entry of the thread is then due `debounce` seconds after this one.

        But never later than `ceiling` seconds after the first of them. The same entry_id twice is
        queued once.
        """
        ...

    async def claim(
        self, *, now: float, user_id: str | None = None, force: bool = False
    ) -> list[QueuedExchange]:
        """Take the entries of one thread that are due (all of a thread's, oldest first).

        A user is claimed by one process at a time; what a dead process had claimed is free again.

        Args:
            now: UTC seconds.
            user_id: only this user's.
            force: also what is not due yet.

        Returns:
            [] when there is nothing to do.
        """
        ...

    async def complete(self, entry_ids: Sequence[str]) -> None:
        """Remove entries whose facts are stored."""
        ...

    async def release(self, entry_ids: Sequence[str], *, due_at: float) -> None:
        """Give claimed entries back, due again at `due_at` (UTC seconds)."""
        ...

    async def pending(self, user_id: str | None = None) -> int:
        """Entries that are queued or claimed."""
        ...

    async def next_due(self, user_id: str | None = None) -> float | None:
        """UTC seconds at which the next unclaimed entry is due, None when there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Spent:
    """What a user used on a day: tokens, and money by currency.

    Raises:
        StorageError: an amount is not a finite number; it would spoil every later sum.
    """

    tokens: int = 0
    money: dict[str, float] = field(default_factory=dict[str, float])

    def __post_init__(self) -> None:
        for currency, amount in self.money.items():
            if not math.isfinite(amount):
                raise StorageError(
                    f"{amount!r} {currency} is no sum of money.",
                    cure="Give the model's prices in the configuration as plain numbers.",
                )


@runtime_checkable
class Spending(Protocol):
    """What users have spent by day (UTC, ISO 8601 date)."""

    def add(self, user_id: str, day: str, tokens: int, money: dict[str, float]) -> Awaitable[None]:
        """Add to the day's sum; queued in order with the step's other writes.

        Raises:
            StorageError: at once, an amount is not finite.
        """
        ...

    def of(self, user_id: str, day: str) -> Awaitable[Spent]:
        """The day's sum, by all processes, with all that was added here before the call.

        It is read in order with the writes that are queued; the result may be left unawaited, and
        awaited more than once.
        """
        ...
