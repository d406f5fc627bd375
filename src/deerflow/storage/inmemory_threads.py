"""Threads and runs in memory."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

from deerflow.errors import ConflictError, NotFoundError, ThreadGoneError
from deerflow.storage.encoding import clean_text, copied
from deerflow.storage.inmemory_runs import MemoryRuns
from deerflow.storage.inmemory_tables import Commit, Tables, release
from deerflow.storage.protocol import ThreadQuery, ThreadRow
from deerflow.storage.states import (
    PINNED,
    has_metadata,
)
from deerflow.storage.ticket import settled_ticket

Found = list[ThreadRow]
"""Inside the class `list` is the method."""


class MemoryThreads(MemoryRuns):
    """Threads and runs in memory."""

    async def ensure(
        self, user_id: str, thread_id: str, metadata: dict[str, Any] | None = None
    ) -> ThreadRow:
        """See Threads."""
        found = await self.get(user_id, thread_id)
        if found is not None:
            return found
        return self.add(ThreadRow.new(user_id, thread_id, metadata))

    async def list(
        self, user_id: str, *, limit: int = 50, before: tuple[float, str] | None = None
    ) -> list[ThreadRow]:
        """See Threads."""
        rows = [row for row in self._tables.threads.values() if row.user_id == user_id]
        rows.sort(key=lambda row: (row.updated_at, row.thread_key), reverse=True)
        if before is not None:
            rows = [row for row in rows if (row.updated_at, row.thread_key) < before]
        return rows[:limit]

    async def copy(
        self,
        source_key: str,
        target: ThreadRow,
        *,
        seq: int | None = None,
        checkpoint_id: str | None = None,
    ) -> ThreadRow | None:
        """See Threads."""
        tables, key = self._tables, target.thread_key
        tables.refuse(source_key)
        if source_key not in tables.threads:
            raise NotFoundError("There is no such thread.")
        if await self.get(target.user_id, target.thread_id) is not None:
            return None
        if key in tables.threads or key in tables.retired:
            raise ConflictError("A thread with this key existed before.")
        log = tables.events.get(source_key, [])
        last = tables.threads[source_key].last_seq
        last = last if seq is None else min(seq, last)
        tables.events[key] = [
            replace(event, thread_id=target.thread_id) for event in log if event.seq <= last
        ]
        tables.last_seq[key] = last
        await self._saver.acopy_thread(source_key, key)
        if checkpoint_id is not None:
            self._saver.cut(key, checkpoint_id)
        for user, owner, sha in list(tables.references):
            if owner == source_key:
                tables.references.add((user, key, sha))
        return self.add(replace(target, last_seq=last))

    async def by_key(self, thread_key: str) -> ThreadRow | None:
        """See Threads."""
        return self._tables.threads.get(thread_key)

    async def search(self, user_id: str, query: ThreadQuery) -> Found:
        """See Threads."""
        rows = self._matching(user_id, query)
        rows.sort(key=lambda row: getattr(row, query.sort_by), reverse=query.descending)
        if query.pinned_first:
            rows.sort(key=lambda row: row.metadata.get(PINNED) is not True)
        return rows[query.offset : query.offset + query.limit]

    async def count(self, user_id: str, query: ThreadQuery) -> int:
        """See Threads."""
        return len(self._matching(user_id, query))

    def _matching(self, user_id: str, query: ThreadQuery) -> Found:
        """The threads of a query in the order in which `sort` keeps equal ones."""
        rows = [
            row
            for row in self._tables.threads.values()
            if row.user_id == user_id
            and query.status in (None, row.status)
            and (query.ids is None or row.thread_id in query.ids)
            and has_metadata(row.metadata, query.metadata)
        ]
        return rows[::-1] if query.descending else rows

    async def describe(self, thread_key: str, metadata: dict[str, Any]) -> ThreadRow:
        """See Threads."""
        row = self._tables.threads.get(thread_key)
        if row is None:
            raise ThreadGoneError("The thread was deleted.")
        merged = {**row.metadata, **copied(metadata)}
        merged = {key: value for key, value in merged.items() if value is not None}
        row = self._tables.threads[thread_key] = replace(row, metadata=merged)
        return row

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
        tables.idempotency = {k: v for k, v in tables.idempotency.items() if v in tables.runs}
        _forget_work(tables, key)
        await self._saver.adelete_thread(key)
        for user, owner, sha in [r for r in tables.references if r[1] == key]:
            release(tables, user, owner, sha)
        tables.hub.publish(Commit(deleted=[key]))
        return key


def _forget_work(tables: Tables, key: str) -> None:
    """Remove a thread's approvals, batches with their items, and queued memories."""
    tables.approvals = {k: v for k, v in tables.approvals.items() if v.thread_key != key}
    for batch_id in [b.batch_id for b in tables.batches.values() if b.thread_key == key]:
        del tables.batches[batch_id], tables.items[batch_id]
    tables.deliveries = {k: v for k, v in tables.deliveries.items() if v.row.thread_key != key}
    tables.feedback = {k: v for k, v in tables.feedback.items() if v.thread_key != key}
    tables.exchanges = {k: v for k, v in tables.exchanges.items() if v.entry.thread_key != key}
