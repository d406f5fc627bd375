"""The seam of storage: threads, runs, event log, deltas, journal, blobs, and the checkpoint saver.

One `Storage` per process. Everything that a step writes (checkpoint, its events, its journal
rows) goes through one writer and becomes durable in one transaction, in the order in which it was
submitted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from deerflow.events import Event
from deerflow.storage.accounts import (
    Accounts,
    AssistantRow,
    AuditRow,
    Documents,
    FeedbackRow,
    TokenKind,
    TokenRow,
    UserRow,
)
from deerflow.storage.conversations import Expiry, RunRow, ThreadQuery, ThreadRow, Threads
from deerflow.storage.scheduling import ScheduledRun, ScheduleRow, Schedules
from deerflow.storage.serving import (
    Cancel,
    Deliveries,
    Delivery,
    NewRun,
    RunQueue,
    Strategy,
    Submitted,
    WorkerRow,
    Workers,
)
from deerflow.storage.work import (
    ApprovalRow,
    Approvals,
    ApprovalStatus,
    Batches,
    BatchItem,
    BatchRow,
    Decision,
    ItemStatus,
    MemoryQueue,
    QueuedExchange,
    Spending,
    Spent,
)

__all__ = [
    "Accounts",
    "ApprovalRow",
    "ApprovalStatus",
    "Approvals",
    "AssistantRow",
    "AuditRow",
    "BatchItem",
    "BatchRow",
    "Batches",
    "Blobs",
    "CallKey",
    "CLOSING",
    "Cancel",
    "Decision",
    "Deliveries",
    "Delivery",
    "Delta",
    "DeltaLog",
    "Documents",
    "EventLog",
    "Expiry",
    "FeedbackRow",
    "ItemStatus",
    "Journal",
    "Listener",
    "MemoryQueue",
    "ModelKey",
    "NewRun",
    "QueuedExchange",
    "RunQueue",
    "RunRow",
    "ScheduleRow",
    "ScheduledRun",
    "Schedules",
    "Spending",
    "Spent",
    "Storage",
    "StorageKind",
    "Strategy",
    "Submitted",
    "ThreadQuery",
    "ThreadRow",
    "Threads",
    "TokenKind",
    "TokenRow",
    "ToolRecord",
    "UserRow",
    "WorkerRow",
    "Workers",
]

CLOSING = "__deerflow_closing"
"""Set in the `configurable` of a graph's config by whoever writes the end of the run: the last
checkpoint then is stored with that end, and is waited for with it (see `Threads.end_run`).
LangGraph
keeps such names out of the metadata."""

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.store.base import BaseStore


@dataclass(frozen=True, slots=True)
class CallKey:
    """Identity of a tool call; never the provider's call id (endpoints repeat `call_0`).

    Attributes:
        thread_key: internal thread id.
        run_id: the run.
        namespace: checkpoint namespace of lead ("") or child.
        message_id: id of the AI message that holds the call.
        index: position of the call in it, from 0.
    """

    thread_key: str
    run_id: str
    namespace: str
    message_id: str
    index: int


@dataclass(frozen=True, slots=True)
class ModelKey:
    """Identity of a model call: thread, run, namespace, turn (from 1) and sha256 of the request."""

    thread_key: str
    run_id: str
    namespace: str
    turn: int
    request_sha256: str


@dataclass(frozen=True, slots=True)
class ToolRecord:
    """What the journal knows of a call. `started` without `result` = outcome unknown.

    `result` is what `dumps` of the journal's owner made of the tool's raw result (JSON text).
    """

    name: str
    started: bool
    result: str | None


@runtime_checkable
class Journal(Protocol):
    """The journal of effects (architecture, decision 7)."""

    async def tool_started(self, key: CallKey, name: str) -> None:
        """Record that the effect is about to happen; durable when it returns."""
        ...

    def tool_finished(self, key: CallKey, name: str, result: str) -> Awaitable[None]:
        """Record the raw result; queued at once in order, awaitable for durability."""
        ...

    async def tool_lookup(self, key: CallKey) -> ToolRecord | None:
        """What is known of the call, None when nothing."""
        ...

    def model_finished(self, key: ModelKey, reply: str) -> Awaitable[None]:
        """Record a model's reply (JSON text); queued at once, awaitable for durability."""
        ...

    async def model_lookup(self, key: ModelKey) -> str | None:
        """The recorded reply of this very request in this run, or None."""
        ...


@runtime_checkable
class EventLog(Protocol):
    """The append-only log of every thread; `seq` is per thread and gapless."""

    def append(
        self, thread_key: str, run_id: str, type: str, payload: dict[str, Any]
    ) -> Awaitable[Event]:
        """Queue an event at once, in order; awaiting gives it as committed, with its seq.

        Raises:
            ThreadGoneError: when awaited, the thread was deleted.
        """
        ...

    async def read(self, thread_key: str, *, after: int = 0, limit: int = 1000) -> list[Event]:
        """Committed events with seq > after, in order."""
        ...

    def follow(self, thread_key: str, *, after: int = 0) -> AsyncIterator[Event]:
        """Committed events with seq > after, then each new one as it is committed, without end."""
        ...


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a message that is still being written. `offset` counts characters from 0."""

    run_id: str
    message_id: str
    offset: int
    text: str


@runtime_checkable
class DeltaLog(Protocol):
    """Token deltas: committed before they are shown, dropped when the message is an event."""

    def append(self, thread_key: str, delta: Delta) -> Awaitable[None]:
        """Queue; committed at most 20 ms later, a message's first delta at once."""
        ...

    async def read(self, run_id: str, message_id: str) -> list[Delta]:
        """Committed deltas of one message in order."""
        ...

    def follow(self, thread_key: str) -> AsyncIterator[Delta]:
        """Deltas as they are committed, without end; a slow reader never slows the writer."""
        ...

    def finish(self, run_id: str, message_id: str) -> Awaitable[None]:
        """Drop a message's deltas, in the transaction of the event that holds the whole message."""
        ...


@runtime_checkable
class Blobs(Protocol):
    """Content-addressed bytes per user; the last reference takes the blob along."""

    async def put(self, user_id: str, thread_key: str, data: bytes, media_type: str) -> str:
        """Store once per user and add the thread's reference. Returns the sha256 hex digest."""
        ...

    async def get(self, user_id: str, sha256: str) -> tuple[bytes, str] | None:
        """Bytes and media type, None when unknown or someone else's."""
        ...

    async def release(self, user_id: str, thread_key: str, sha256: str) -> None:
        """Drop the thread's reference."""
        ...


Listener = Callable[[Sequence[Event], int], None]
"""Told of a commit: its events in order, and bytes of its newest checkpoint (0 = none)."""

StorageKind = Literal["memory", "sqlite", "postgres"]


@runtime_checkable
class Storage(Protocol):
    """All stores of one database."""

    kind: StorageKind
    events: EventLog
    deltas: DeltaLog
    journal: Journal
    threads: Threads
    blobs: Blobs
    approvals: Approvals
    batches: Batches
    memory_queue: MemoryQueue
    spending: Spending
    workers: Workers
    queue: RunQueue
    deliveries: Deliveries
    schedules: Schedules
    accounts: Accounts
    documents: Documents
    expiry: Expiry
    saver: BaseCheckpointSaver[int]

    def items(self, user_id: str) -> BaseStore:
        """The user's key-value store of the LangGraph protocol."""
        ...

    def listen(self, listener: Listener) -> None:
        """Call `listener` in the running loop after each commit of this process, until it closes.

        It returns at once. Writes of other processes are theirs to tell. Storage in memory counts
        no bytes.
        """
        ...

    async def flush(self) -> None:
        """Return when everything queued before is durable."""
        ...

    async def close(self) -> None:
        """Flush and release files and threads."""
        ...
