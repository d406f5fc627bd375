"""What the in-memory stores share: dictionaries in the place of tables."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

from deerflow.errors import ThreadGoneError
from deerflow.events import Event
from deerflow.storage.encoding import copied
from deerflow.storage.follow import Dropped, Hub
from deerflow.storage.protocol import (
    ApprovalRow,
    BatchItem,
    BatchRow,
    CallKey,
    Delta,
    FeedbackRow,
    ModelKey,
    QueuedExchange,
    RunRow,
    ThreadRow,
    ToolRecord,
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


@dataclass(slots=True)
class Waiting:
    """A queued exchange with its place in the queue; `owner` = who has claimed it, or ""."""

    entry: QueuedExchange
    due_at: float
    owner: str = ""


class Tables:
    """The state that the in-memory stores share."""

    def __init__(self) -> None:
        self.hub = Hub()
        self.threads: dict[str, ThreadRow] = {}
        self.retired: set[str] = set()
        self.runs: dict[str, RunRow] = {}
        self.events: dict[str, list[Event]] = {}
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
        """Raise ThreadGoneError when the key is retired."""
        if thread_key in self.retired:
            raise ThreadGoneError("The thread was deleted.")

    def gone(self, thread_key: str) -> Ticket[None] | None:
        """A failed ticket when the key is retired."""
        if thread_key in self.retired:
            return failed_ticket(ThreadGoneError("The thread was deleted."))
        return None

    def append(self, thread_key: str, run_id: str, type: str, payload: dict[str, Any]) -> Event:
        """Add an event and tell the followers."""
        log = self.events.setdefault(thread_key, [])
        row = self.threads.get(thread_key)
        event = Event(
            seq=len(log) + 1,
            type=type,
            run_id=run_id,
            thread_id=row.thread_id if row else thread_key,
            created_at=time.time(),
            payload=copied(payload),
        )
        log.append(event)
        if row is not None:
            self.threads[thread_key] = replace(row, last_seq=event.seq)
        self.hub.publish(Commit(events={thread_key: [event]}))
        return event


def release(tables: Tables, user_id: str, thread_key: str, sha256: str) -> None:
    """Drop a reference, and the blob with its last one."""
    tables.references.discard((user_id, thread_key, sha256))
    if not any(user == user_id and sha == sha256 for user, _, sha in tables.references):
        tables.blobs.pop((user_id, sha256), None)
