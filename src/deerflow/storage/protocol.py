"""The seam of storage: threads, runs, event log, deltas, journal, blobs, and the checkpoint saver.

One `Storage` per process. Everything that a step writes (checkpoint, its events, its journal
rows) goes through one writer and becomes durable in one transaction, in the order in which it was
submitted.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from deerflow.events import Event
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
    "ApprovalRow",
    "ApprovalStatus",
    "Approvals",
    "BatchItem",
    "BatchRow",
    "Batches",
    "Blobs",
    "CallKey",
    "Decision",
    "Delta",
    "DeltaLog",
    "EventLog",
    "ItemStatus",
    "Journal",
    "MemoryQueue",
    "ModelKey",
    "QueuedExchange",
    "RunRow",
    "Spending",
    "Spent",
    "Storage",
    "StorageKind",
    "ThreadRow",
    "Threads",
    "ToolRecord",
]

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """A thread as the list shows it.

    Attributes:
        user_id: owner.
        thread_id: the client's id, unique per user.
        thread_key: random internal id; LangGraph, folders, blobs and locks use it, never thread_id.
        title: or "".
        created_at: UTC seconds.
        updated_at: UTC seconds of the last run.
        status: idle, busy, interrupted or error.
        metadata: client's JSON object.
        last_seq: highest event seq.
    """

    user_id: str
    thread_id: str
    thread_key: str
    title: str
    created_at: float
    updated_at: float
    status: str
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    last_seq: int = 0

    @classmethod
    def new(cls, user_id: str, thread_id: str, metadata: dict[str, Any] | None = None) -> ThreadRow:
        """A thread that does not exist yet, with a key that no other one has."""
        key, now = secrets.token_hex(16), time.time()
        return cls(user_id, thread_id, key, "", now, now, "idle", metadata or {})


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run: states `pending → running → success | error | interrupted | timeout | cancelled`."""

    run_id: str
    thread_key: str
    status: str
    created_at: float
    started_at: float | None = None
    ended_at: float | None = None
    input: dict[str, Any] = field(default_factory=dict[str, Any])
    config: dict[str, Any] = field(default_factory=dict[str, Any])
    outcome: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    owner: str = ""
    """Process that runs it, see `deerflow.storage.owner`."""


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
class Threads(Protocol):
    """Threads and runs of users."""

    async def ensure(
        self, user_id: str, thread_id: str, metadata: dict[str, Any] | None = None
    ) -> ThreadRow:
        """The thread, created with a new random key when it is new."""
        ...

    async def get(self, user_id: str, thread_id: str) -> ThreadRow | None:
        """The thread or None (also when it is someone else's)."""
        ...

    async def list(
        self, user_id: str, *, limit: int = 50, before: tuple[float, str] | None = None
    ) -> list[ThreadRow]:
        """Newest first; `before` = (updated_at, thread_key) of the last row of the page before."""
        ...

    def update(
        self, thread_key: str, *, title: str | None = None, status: str | None = None
    ) -> Awaitable[None]:
        """Change fields, queued in order with the step's other writes."""
        ...

    async def delete(self, user_id: str, thread_id: str) -> str | None:
        """Remove rows, events, deltas, journal, checkpoints and references; the key is retired.

        Returns:
            The retired thread_key (its folders are the caller's to remove), None when unknown.
        """
        ...

    async def start_run(
        self,
        thread_key: str,
        run_id: str,
        *,
        input: dict[str, Any],
        config: dict[str, Any],
        event: tuple[str, dict[str, Any]] | None = None,
    ) -> RunRow:
        """Insert the run row and its first event in one transaction; the thread turns busy.

        Raises:
            ConflictError: another run of the thread is active in a living process.
        """
        ...

    async def open_run(
        self,
        thread: ThreadRow,
        run_id: str,
        *,
        input: dict[str, Any],
        config: dict[str, Any],
        event: tuple[str, dict[str, Any]] | None = None,
    ) -> RunRow | None:
        """Make a thread (see `ThreadRow.new`) and start its first run in one transaction.

        Returns:
            None when the user has a thread of this id by now; nothing is written then.

        Raises:
            ConflictError: the key was used before, or a run with this id exists.
        """
        ...

    async def reopen_run(self, thread_key: str, run_id: str) -> RunRow:
        """Take over an unfinished run (its process died, or it was stopped) for this process.

        Raises:
            ConflictError: a living process executes a run of this thread.
            NotFoundError: no such run, or it ended with success.
        """
        ...

    def end_run(
        self,
        run_id: str,
        *,
        status: str,
        outcome: dict[str, Any] | None,
        error: dict[str, Any] | None = None,
        usage: dict[str, Any] | None = None,
        event: tuple[str, dict[str, Any]] | None = None,
    ) -> Awaitable[None]:
        """Close a run and log its last event in one transaction; the first end counts.

        The thread turns idle, interrupted or error. After a success nobody resumes: the run's
        journal and the checkpoints of children (namespaces other than "") are dropped.
        """
        ...

    async def runs(self, thread_key: str, *, limit: int = 50) -> list[RunRow]:
        """Runs of a thread, newest first."""
        ...

    async def run(self, run_id: str) -> RunRow | None:
        """One run."""
        ...

    async def active_run(self, thread_key: str) -> RunRow | None:
        """The thread's run that has not ended; `owner.is_alive` tells whether it is executed."""
        ...

    async def abandon_run(self, run_id: str) -> None:
        """Close a run whose process died: error `process_died`. Nothing when it has ended."""
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
    saver: BaseCheckpointSaver[int]

    async def flush(self) -> None:
        """Return when everything queued before is durable."""
        ...

    async def close(self) -> None:
        """Flush and release files and threads."""
        ...
