"""What the in-memory stores share: dictionaries in the place of tables."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

from deerflow.errors import DeerFlowError, LeaseLostError, ThreadGoneError
from deerflow.events import Event
from deerflow.storage.encoding import copied
from deerflow.storage.follow import Dropped, Hub
from deerflow.storage.owner import WORKER, is_alive, is_gone
from deerflow.storage.protocol import (
    ApprovalRow,
    BatchItem,
    BatchRow,
    CallKey,
    Delivery,
    Delta,
    FeedbackRow,
    ModelKey,
    QueuedExchange,
    RunRow,
    ThreadRow,
    ToolRecord,
    WorkerRow,
)
from deerflow.storage.ticket import Ticket, failed_ticket


@dataclass(slots=True)
class Commit:
    """What followers hear of a write."""

    events: dict[str, list[Event]] = field(default_factory=dict[str, list[Event]])
    deltas: dict[str, list[Delta | Dropped]] = field(
        default_factory=dict[str, list[Delta | Dropped]]
    )
    deleted: list[str] = field(default_factory=list[str])
    checkpoint_bytes: int = 0


@dataclass(slots=True)
class Waiting:
    """A queued exchange with its place in the queue; `owner` = who has claimed it, or ""."""

    entry: QueuedExchange
    due_at: float
    owner: str = ""


@dataclass(slots=True)
class Sent:
    """A delivery and until when somebody has taken it."""

    row: Delivery
    claimed_until: float = 0.0


class Tables:
    """The state that the in-memory stores share."""

    def __init__(self) -> None:
        self.hub = Hub()
        self.threads: dict[str, ThreadRow] = {}
        self.retired: set[str] = set()
        self.runs: dict[str, RunRow] = {}
        self.idempotency: dict[tuple[str, str], str] = {}
        self.workers: dict[str, WorkerRow] = {}
        self.fences: dict[str, str] = {}
        self.deliveries: dict[str, Sent] = {}
        self.events: dict[str, list[Event]] = {}
        self.last_seq: dict[str, int] = {}
        self.deltas: dict[tuple[str, str], list[Delta]] = {}
        self.delta_keys: dict[tuple[str, str], str] = {}
        self.tools: dict[CallKey, ToolRecord] = {}
        self.replies: dict[ModelKey, str] = {}
        self.blobs: dict[tuple[str, str], tuple[bytes, str]] = {}
        self.references: set[tuple[str, str, str]] = set()
        self.approvals: dict[tuple[str, str], ApprovalRow] = {}
        self.batches: dict[str, BatchRow] = {}
        self.items: dict[str, list[BatchItem]] = {}
        self.exchanges: dict[str, Waiting] = {}
        self.feedback: dict[tuple[str, str], FeedbackRow] = {}

    def refuse(self, thread_key: str) -> None:
        """Raise ThreadGoneError when the key is retired, LeaseLostError when its worker is."""
        error = self._refusal(thread_key)
        if error is not None:
            raise error

    def refuse_retired(self, thread_key: str) -> None:
        """Raise ThreadGoneError when the key is retired."""
        if thread_key in self.retired:
            raise ThreadGoneError("The thread was deleted.")

    def gone(self, thread_key: str) -> Ticket[None] | None:
        """A failed ticket where `refuse` raises."""
        error = self._refusal(thread_key)
        return None if error is None else failed_ticket(error)

    def _refusal(self, thread_key: str) -> DeerFlowError | None:
        if thread_key in self.retired:
            return ThreadGoneError("The thread was deleted.")
        worker = self.fences.get(thread_key)
        if worker is not None and worker not in self.workers:
            return LeaseLostError("The runs of this worker were given to another.")
        return None

    def append(self, thread_key: str, run_id: str, type: str, payload: dict[str, Any]) -> Event:
        """Add an event and tell the followers."""
        row = self.threads.get(thread_key)
        event = Event(
            seq=self.last_seq.get(thread_key, 0) + 1,
            type=type,
            run_id=run_id,
            thread_id=row.thread_id if row else thread_key,
            created_at=time.time(),
            payload=copied(payload),
        )
        self.last_seq[thread_key] = event.seq
        self.events.setdefault(thread_key, []).append(event)
        if row is not None:
            self.threads[thread_key] = replace(row, last_seq=event.seq)
        self.hub.publish(Commit(events={thread_key: [event]}))
        return event

    def lives(self, owner: str) -> bool:
        """Whether a process runs, or a worker's lease holds."""
        if not owner.startswith(WORKER):
            return is_alive(owner)
        row = self.workers.get(owner)
        return row is not None and row.expires_at > time.time() and not is_gone(row.process)


def release(tables: Tables, user_id: str, thread_key: str, sha256: str) -> None:
    """Drop a reference, and the blob with its last one."""
    tables.references.discard((user_id, thread_key, sha256))
    if not any(user == user_id and sha == sha256 for user, _, sha in tables.references):
        tables.blobs.pop((user_id, sha256), None)
