"""All of the storage in memory: for tests, stateless runs, and as the conformance suite's twin."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Awaitable
from hashlib import sha256 as digest
from typing import TYPE_CHECKING, Any

from deerflow.events import Event
from deerflow.storage.checkpoints.memory import MemorySaver
from deerflow.storage.follow import PAGE, DeltaFollower, Dropped, EventFollower
from deerflow.storage.inmemory_accounts import MemoryAccounts
from deerflow.storage.inmemory_documents import MemoryDocuments
from deerflow.storage.inmemory_expiry import MemoryExpiry
from deerflow.storage.inmemory_items import Kept, MemoryItems
from deerflow.storage.inmemory_queue import MemoryRunQueue
from deerflow.storage.inmemory_schedules import MemorySchedules
from deerflow.storage.inmemory_tables import Commit, Tables, release
from deerflow.storage.inmemory_threads import MemoryThreads
from deerflow.storage.inmemory_work import (
    MemoryApprovals,
    MemoryBatches,
    MemoryExchanges,
    MemorySpending,
)
from deerflow.storage.inmemory_workers import MemoryDeliveries, MemoryWorkers
from deerflow.storage.owner import this_owner
from deerflow.storage.protocol import (
    Accounts,
    Approvals,
    Batches,
    Blobs,
    CallKey,
    Deliveries,
    Delta,
    DeltaLog,
    Documents,
    EventLog,
    Expiry,
    Journal,
    Listener,
    MemoryQueue,
    ModelKey,
    RunQueue,
    Schedules,
    Spending,
    StorageKind,
    Threads,
    ToolRecord,
    Workers,
)
from deerflow.storage.ticket import settled_ticket

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.store.base import BaseStore


class MemoryEvents:
    """EventLog in memory."""

    def __init__(self, tables: Tables) -> None:
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
        log = self._tables.events.get(thread_key, [])
        start = bisect_right(log, after, key=lambda event: event.seq)
        return log[start : start + limit]

    def follow(self, thread_key: str, *, after: int = 0) -> EventFollower:
        """See EventLog."""

        async def page(cursor: int) -> list[Event]:
            return await self.read(thread_key, after=cursor, limit=PAGE)

        return self._tables.hub.follow_events(thread_key, EventFollower(page, after))


class MemoryDeltas:
    """DeltaLog in memory."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def append(self, thread_key: str, delta: Delta) -> Awaitable[None]:
        """See DeltaLog."""
        gone = self._tables.gone(thread_key)
        if gone is not None:
            return gone
        message = (delta.run_id, delta.message_id)
        self._tables.deltas.setdefault(message, []).append(delta)
        self._tables.delta_keys[message] = thread_key
        self._tables.hub.publish(Commit(deltas={thread_key: [delta]}))
        return settled_ticket(None)

    async def read(self, run_id: str, message_id: str) -> list[Delta]:
        """See DeltaLog."""
        return list(self._tables.deltas.get((run_id, message_id), []))

    def follow(self, thread_key: str) -> DeltaFollower:
        """See DeltaLog."""
        return self._tables.hub.follow_deltas(thread_key, DeltaFollower())

    def finish(self, run_id: str, message_id: str) -> Awaitable[None]:
        """See DeltaLog."""
        key = self._tables.delta_keys.get((run_id, message_id))
        gone = None if key is None else self._tables.gone(key)
        if gone is not None:
            return gone
        self._tables.deltas.pop((run_id, message_id), None)
        self._tables.delta_keys.pop((run_id, message_id), None)
        if key is not None:
            self._tables.hub.publish(Commit(deltas={key: [Dropped(run_id, message_id)]}))
        return settled_ticket(None)


class MemoryJournal:
    """Journal in memory."""

    def __init__(self, tables: Tables) -> None:
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


class MemoryBlobs:
    """Blobs in memory."""

    def __init__(self, tables: Tables) -> None:
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


class InMemoryStorage:
    """Storage that lives as long as the process.

    Args:
        owner: who runs the runs that are started here; this process when empty.
    """

    kind: StorageKind = "memory"

    def __init__(self, *, owner: str = "") -> None:
        tables = Tables()
        self._hub = tables.hub
        self.events: EventLog = MemoryEvents(tables)
        self.deltas: DeltaLog = MemoryDeltas(tables)
        self.journal: Journal = MemoryJournal(tables)
        self.blobs: Blobs = MemoryBlobs(tables)
        owner = owner or this_owner()
        self.approvals: Approvals = MemoryApprovals(tables)
        self.batches: Batches = MemoryBatches(tables, owner)
        self.memory_queue: MemoryQueue = MemoryExchanges(tables, owner)
        self.spending: Spending = MemorySpending()
        schedules = MemorySchedules(tables)
        self.schedules: Schedules = schedules
        self.accounts: Accounts = MemoryAccounts()
        self.documents: Documents = MemoryDocuments(tables)
        self.workers: Workers = MemoryWorkers(tables)
        self.deliveries: Deliveries = MemoryDeliveries(tables)
        self._items: dict[str, Kept] = {}
        saver = MemorySaver(tables.refuse)
        self.saver: BaseCheckpointSaver[int] = saver
        threads = MemoryThreads(tables, saver, owner)
        self.threads: Threads = threads
        self.queue: RunQueue = MemoryRunQueue(tables, threads)
        self.expiry: Expiry = MemoryExpiry(tables, threads, schedules)

    def items(self, user_id: str) -> BaseStore:
        """See Storage."""
        return MemoryItems(self._items.setdefault(user_id, {}))

    def listen(self, listener: Listener) -> None:
        """See Storage."""
        self._hub.listen(listener)

    async def flush(self) -> None:
        """Nothing waits in memory."""

    async def close(self) -> None:
        """End the followers."""
        self._hub.end()
