"""All of the storage in memory: for tests, stateless runs and as the twin that the conformance suite compares."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field, replace
from hashlib import sha256 as digest
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver

from deerflow.errors import ConflictError, NotFoundError, ThreadGoneError
from deerflow.events import Event
from deerflow.storage.checkpoints.memory import MemorySaver
from deerflow.storage.encoding import clean_text, copied
from deerflow.storage.follow import PAGE, DeltaFollower, Dropped, EventFollower, Hub
from deerflow.storage.owner import is_alive, this_owner
from deerflow.storage.protocol import (
    Blobs,
    CallKey,
    Delta,
    DeltaLog,
    EventLog,
    Journal,
    ModelKey,
    RunRow,
    StorageKind,
    ThreadRow,
    Threads,
    ToolRecord,
)
from deerflow.storage.states import ABANDONED, THREAD_STATUS
from deerflow.storage.ticket import Ticket, failed_ticket, settled_ticket


@dataclass(slots=True)
class _Commit:
    events: dict[str, list[Event]] = field(default_factory=dict[str, list[Event]])
    deltas: dict[str, list[Delta | Dropped]] = field(
        default_factory=dict[str, list[Delta | Dropped]]
    )
    deleted: list[str] = field(default_factory=list[str])


class _Tables:
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
        self.hub.publish(_Commit(events={thread_key: [event]}))
        return event


class MemoryEvents:
    """EventLog in memory."""

    def __init__(self, tables: _Tables) -> None:
        self._tables = tables

    def append(
        self, thread_key: str, run_id: str, type: str, payload: dict[str, Any]
    ) -> Awaitable[Event]:
        """See EventLog."""
        gone = self._tables.gone(thread_key)
        if gone is not None:
            return gone  # pyright: ignore[reportReturnType]  # raises when awaited
        return settled_ticket(self._tables.append(thread_key, run_id, type, payload))

    async def read(self, thread_key: str, *, after: int = 0, limit: int = 1000) -> list[Event]:
        """See EventLog."""
        return self._tables.events.get(thread_key, [])[after : after + limit]

    def follow(self, thread_key: str, *, after: int = 0) -> EventFollower:
        """See EventLog."""

        async def page(cursor: int) -> list[Event]:
            return await self.read(thread_key, after=cursor, limit=PAGE)

        return self._tables.hub.follow_events(thread_key, EventFollower(page, after))


class MemoryDeltas:
    """DeltaLog in memory."""

    def __init__(self, tables: _Tables) -> None:
        self._tables = tables

    def append(self, thread_key: str, delta: Delta) -> Awaitable[None]:
        """See DeltaLog."""
        gone = self._tables.gone(thread_key)
        if gone is not None:
            return gone
        message = (delta.run_id, delta.message_id)
        self._tables.deltas.setdefault(message, []).append(delta)
        self._tables.delta_keys[message] = thread_key
        self._tables.hub.publish(_Commit(deltas={thread_key: [delta]}))
        return settled_ticket(None)

    async def read(self, run_id: str, message_id: str) -> list[Delta]:
        """See DeltaLog."""
        return list(self._tables.deltas.get((run_id, message_id), []))

    def follow(self, thread_key: str) -> DeltaFollower:
        """See DeltaLog."""
        return self._tables.hub.follow_deltas(thread_key, DeltaFollower())

    def finish(self, run_id: str, message_id: str) -> Awaitable[None]:
        """See DeltaLog."""
        self._tables.deltas.pop((run_id, message_id), None)
        key = self._tables.delta_keys.pop((run_id, message_id), None)
        if key is not None:
            self._tables.hub.publish(_Commit(deltas={key: [Dropped(run_id, message_id)]}))
        return settled_ticket(None)


class MemoryJournal:
    """Journal in memory."""

    def __init__(self, tables: _Tables) -> None:
        self._tables = tables

    async def tool_started(self, key: CallKey, name: str) -> None:
        """See Journal."""
        self._tables.refuse(key.thread_key)
        self._tables.tools.setdefault(key, ToolRecord(name, started=True, result=None))

    def tool_finished(self, key: CallKey, name: str, result: str) -> Awaitable[None]:
        """See Journal."""
        gone = self._tables.gone(key.thread_key)
        if gone is not None:
            return gone
        before = self._tables.tools.get(key)
        started = before is not None and before.started
        self._tables.tools[key] = ToolRecord(name, started=started, result=result)
        return settled_ticket(None)

    async def tool_lookup(self, key: CallKey) -> ToolRecord | None:
        """See Journal."""
        return self._tables.tools.get(key)

    def model_finished(self, key: ModelKey, reply: str) -> Awaitable[None]:
        """See Journal."""
        gone = self._tables.gone(key.thread_key)
        if gone is not None:
            return gone
        self._tables.replies[key] = reply
        return settled_ticket(None)

    async def model_lookup(self, key: ModelKey) -> str | None:
        """See Journal."""
        return self._tables.replies.get(key)


class MemoryThreads:
    """Threads and runs in memory."""

    def __init__(self, tables: _Tables, saver: MemorySaver, owner: str) -> None:
        self._tables = tables
        self._saver = saver
        self._owner = owner

    async def ensure(
        self, user_id: str, thread_id: str, metadata: dict[str, Any] | None = None
    ) -> ThreadRow:
        """See Threads."""
        found = await self.get(user_id, thread_id)
        if found is not None:
            return found
        now = time.time()
        row = ThreadRow(
            user_id=user_id,
            thread_id=thread_id,
            thread_key=secrets.token_hex(16),
            title="",
            created_at=now,
            updated_at=now,
            status="idle",
            metadata=copied(metadata or {}),
        )
        self._tables.threads[row.thread_key] = row
        return row

    async def get(self, user_id: str, thread_id: str) -> ThreadRow | None:
        """See Threads."""
        for row in self._tables.threads.values():
            if (row.user_id, row.thread_id) == (user_id, thread_id):
                return row
        return None

    async def list(
        self, user_id: str, *, limit: int = 50, before: tuple[float, str] | None = None
    ) -> list[ThreadRow]:
        """See Threads."""
        rows = [row for row in self._tables.threads.values() if row.user_id == user_id]
        rows.sort(key=lambda row: (row.updated_at, row.thread_key), reverse=True)
        if before is not None:
            rows = [row for row in rows if (row.updated_at, row.thread_key) < before]
        return rows[:limit]

    def update(
        self, thread_key: str, *, title: str | None = None, status: str | None = None
    ) -> Awaitable[None]:
        """See Threads."""
        gone = self._tables.gone(thread_key)
        if gone is not None:
            return gone
        row = self._tables.threads.get(thread_key)
        if row is not None:
            self._tables.threads[thread_key] = replace(
                row,
                title=row.title if title is None else clean_text(title),
                status=row.status if status is None else status,
            )
        return settled_ticket(None)

    async def delete(self, user_id: str, thread_id: str) -> str | None:
        """See Threads."""
        row = await self.get(user_id, thread_id)
        if row is None:
            return None
        tables, key = self._tables, row.thread_key
        tables.retired.add(key)
        del tables.threads[key]
        tables.events.pop(key, None)
        for message in [m for m, owner in tables.delta_keys.items() if owner == key]:
            tables.deltas.pop(message, None)
            del tables.delta_keys[message]
        tables.tools = {k: v for k, v in tables.tools.items() if k.thread_key != key}
        tables.replies = {k: v for k, v in tables.replies.items() if k.thread_key != key}
        tables.runs = {k: v for k, v in tables.runs.items() if v.thread_key != key}
        await self._saver.adelete_thread(key)
        for user, owner, sha in [r for r in tables.references if r[1] == key]:
            release(tables, user, owner, sha)
        tables.hub.publish(_Commit(deleted=[key]))
        return key

    async def start_run(
        self,
        thread_key: str,
        run_id: str,
        *,
        input: dict[str, Any],
        config: dict[str, Any],
        event: tuple[str, dict[str, Any]] | None = None,
    ) -> RunRow:
        """See Threads."""
        tables = self._tables
        tables.refuse(thread_key)
        if thread_key not in tables.threads:
            raise NotFoundError("There is no such thread.")
        if run_id in tables.runs:
            raise ConflictError("A run with this id exists already.")
        await self._bury(thread_key)
        now = time.time()
        run = RunRow(
            run_id=run_id,
            thread_key=thread_key,
            status="running",
            created_at=now,
            started_at=now,
            input=copied(input),
            config=copied(config),
            owner=self._owner,
        )
        tables.runs[run_id] = run
        tables.threads[thread_key] = replace(
            tables.threads[thread_key], status="busy", updated_at=now
        )
        if event is not None:
            tables.append(thread_key, run_id, *event)
        return run

    async def reopen_run(self, thread_key: str, run_id: str) -> RunRow:
        """See Threads."""
        tables, run = self._tables, self._tables.runs.get(run_id)
        tables.refuse(thread_key)
        if run is None or run.thread_key != thread_key or run.status == "success":
            raise NotFoundError("There is no such run to go on with.")
        await self._bury(thread_key)
        run = tables.runs[run_id] = replace(
            run, status="running", owner=self._owner, ended_at=None, outcome=None, error=None
        )
        tables.threads[thread_key] = replace(
            tables.threads[thread_key], status="busy", updated_at=time.time()
        )
        return run

    async def _bury(self, thread_key: str) -> None:
        """Close the run that a dead process left open; ConflictError when a living one works."""
        active = await self.active_run(thread_key)
        if active is not None and is_alive(active.owner):
            raise ConflictError("Another run of this thread is active.")
        if active is not None:
            await self.abandon_run(active.run_id)

    def end_run(
        self,
        run_id: str,
        *,
        status: str,
        outcome: dict[str, Any] | None,
        error: dict[str, Any] | None = None,
        usage: dict[str, Any] | None = None,
    ) -> Awaitable[None]:
        """See Threads."""
        tables, run = self._tables, self._tables.runs.get(run_id)
        if run is None:
            return failed_ticket(ThreadGoneError("The run's thread was deleted."))
        if run.ended_at is not None:
            return settled_ticket(None)
        now = time.time()
        tables.runs[run_id] = replace(
            run,
            status=status,
            ended_at=now,
            outcome=copied(outcome),
            error=copied(error),
            usage=copied(usage),
        )
        tables.threads[run.thread_key] = replace(
            tables.threads[run.thread_key], status=THREAD_STATUS[status], updated_at=now
        )
        if status == "success":
            tables.tools = {k: v for k, v in tables.tools.items() if k.run_id != run_id}
            tables.replies = {k: v for k, v in tables.replies.items() if k.run_id != run_id}
        return settled_ticket(None)

    async def runs(self, thread_key: str, *, limit: int = 50) -> list[RunRow]:
        """See Threads."""
        rows = [run for run in self._tables.runs.values() if run.thread_key == thread_key]
        return rows[::-1][:limit]

    async def run(self, run_id: str) -> RunRow | None:
        """See Threads."""
        return self._tables.runs.get(run_id)

    async def active_run(self, thread_key: str) -> RunRow | None:
        """See Threads."""
        for run in await self.runs(thread_key):
            if run.ended_at is None:
                return run
        return None

    async def abandon_run(self, run_id: str) -> None:
        """See Threads."""
        if run_id in self._tables.runs:
            await self.end_run(run_id, status="error", outcome=None, error=ABANDONED)


class MemoryBlobs:
    """Blobs in memory."""

    def __init__(self, tables: _Tables) -> None:
        self._tables = tables

    async def put(self, user_id: str, thread_key: str, data: bytes, media_type: str) -> str:
        """See Blobs."""
        self._tables.refuse(thread_key)
        sha256 = (await asyncio.to_thread(digest, data)).hexdigest()
        self._tables.refuse(thread_key)
        self._tables.blobs.setdefault((user_id, sha256), (data, media_type))
        self._tables.references.add((user_id, thread_key, sha256))
        return sha256

    async def get(self, user_id: str, sha256: str) -> tuple[bytes, str] | None:
        """See Blobs."""
        return self._tables.blobs.get((user_id, sha256))

    async def release(self, user_id: str, thread_key: str, sha256: str) -> None:
        """See Blobs."""
        release(self._tables, user_id, thread_key, sha256)


def release(tables: _Tables, user_id: str, thread_key: str, sha256: str) -> None:
    """Drop a reference, and the blob with its last one."""
    tables.references.discard((user_id, thread_key, sha256))
    if not any(user == user_id and sha == sha256 for user, _, sha in tables.references):
        tables.blobs.pop((user_id, sha256), None)


class InMemoryStorage:
    """Storage that lives as long as the process.

    Args:
        owner: who runs the runs that are started here; this process when empty.
    """

    kind: StorageKind = "memory"

    def __init__(self, *, owner: str = "") -> None:
        tables = _Tables()
        self._hub = tables.hub
        self.events: EventLog = MemoryEvents(tables)
        self.deltas: DeltaLog = MemoryDeltas(tables)
        self.journal: Journal = MemoryJournal(tables)
        self.blobs: Blobs = MemoryBlobs(tables)
        saver = MemorySaver(tables.refuse)
        self.saver: BaseCheckpointSaver[int] = saver
        self.threads: Threads = MemoryThreads(tables, saver, owner or this_owner())

    async def flush(self) -> None:
        """Nothing waits in memory."""

    async def close(self) -> None:
        """End the followers."""
        self._hub.end()
