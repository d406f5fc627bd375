"""Threads and runs in memory."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Iterator
from dataclasses import replace
from typing import Any

from deerflow.errors import ConflictError, NotFoundError, ThreadGoneError
from deerflow.storage.checkpoints.memory import MemorySaver
from deerflow.storage.encoding import clean_text, copied
from deerflow.storage.inmemory_tables import Commit, Tables, release
from deerflow.storage.protocol import RunRow, ThreadQuery, ThreadRow
from deerflow.storage.states import (
    ABANDONED,
    ACTIVE,
    PINNED,
    QUEUED,
    THREAD_STATUS,
    has_metadata,
)
from deerflow.storage.ticket import failed_ticket, settled_ticket

Found = list[ThreadRow]
"""Inside the class `list` is the method."""


class MemoryThreads:
    """Threads and runs in memory."""

    def __init__(self, tables: Tables, saver: MemorySaver, owner: str) -> None:
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
        return self.add(ThreadRow.new(user_id, thread_id, metadata))

    def add(self, thread: ThreadRow) -> ThreadRow:
        """Enter a new thread."""
        row = replace(thread, metadata=copied(thread.metadata))
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

    async def open_run(
        self,
        thread: ThreadRow,
        run_id: str,
        *,
        input: dict[str, Any],
        config: dict[str, Any],
        event: tuple[str, dict[str, Any]] | None = None,
    ) -> RunRow | None:
        """See Threads."""
        tables, key = self._tables, thread.thread_key
        if await self.get(thread.user_id, thread.thread_id) is not None:
            return None
        if key in tables.threads or key in tables.retired:
            raise ConflictError("A thread with this key existed before.")
        if run_id in tables.runs:
            raise ConflictError("A run with this id exists already.")
        self.add(thread)
        return await self.start_run(key, run_id, input=input, config=config, event=event)

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
        """Close what a dead process left open; ConflictError when a run is queued or executed."""
        tables = self._tables
        for run in open_runs(tables, thread_key):
            if run.status == "pending":
                raise ConflictError(QUEUED, cure="Wait for its end, or stop it.")
            if tables.lives(run.owner):
                raise ConflictError(ACTIVE)
            await self.abandon_run(run.run_id)
            remove_worker(tables, run.owner)

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
        """See Threads."""
        tables, run = self._tables, self._tables.runs.get(run_id)
        if run is None:
            return failed_ticket(ThreadGoneError("The run's thread was deleted."))
        if run.ended_at is not None:
            return settled_ticket(None)
        lost = tables.gone(run.thread_key)
        return lost or settled_ticket(self.close(run, status, (outcome, error, usage), event))

    def close(
        self,
        run: RunRow,
        status: str,
        documents: tuple[Any, Any, Any] = (None, None, None),
        event: tuple[str, dict[str, Any]] | None = None,
    ) -> None:
        """End an open run; `documents` = outcome, error, usage."""
        tables, run_id, now = self._tables, run.run_id, time.time()
        outcome, error, usage = documents
        tables.runs[run_id] = replace(
            run,
            status=status,
            ended_at=now,
            outcome=copied(outcome),
            error=copied(error),
            usage=copied(usage),
        )
        head = next(iter(open_runs(tables, run.thread_key)), None)
        goes_on = head is not None and (head.status == "running" or (head.not_before or 0.0) <= now)
        tables.threads[run.thread_key] = replace(
            tables.threads[run.thread_key],
            status="busy" if goes_on else THREAD_STATUS[status],
            updated_at=now,
        )
        for sent in tables.deliveries.values():
            if sent.row.run_id == run_id and sent.row.status == "waiting":
                sent.row = replace(sent.row, status="pending", due_at=now)
        if event is not None:
            tables.append(run.thread_key, run_id, *event)
        if status == "success":
            tables.tools = {k: v for k, v in tables.tools.items() if k.run_id != run_id}
            tables.replies = {k: v for k, v in tables.replies.items() if k.run_id != run_id}
            self._saver.forget_children(run.thread_key)

    async def runs(self, thread_key: str, *, limit: int = 50) -> list[RunRow]:
        """See Threads."""
        rows = [run for run in self._tables.runs.values() if run.thread_key == thread_key]
        return rows[::-1][:limit]

    async def run(self, run_id: str) -> RunRow | None:
        """See Threads."""
        return self._tables.runs.get(run_id)

    async def active_run(self, thread_key: str) -> RunRow | None:
        """See Threads."""
        return next(iter(open_runs(self._tables, thread_key)), None)

    async def abandon_run(self, run_id: str) -> None:
        """See Threads."""
        if run_id in self._tables.runs:
            await self.end_run(run_id, status="error", outcome=None, error=ABANDONED)


def open_runs(tables: Tables, thread_key: str) -> Iterator[RunRow]:
    """A thread's runs that have not ended, oldest first."""
    runs = list(tables.runs.values())
    return (run for run in runs if run.thread_key == thread_key and run.ended_at is None)


def remove_worker(tables: Tables, worker_id: str) -> list[RunRow]:
    """Take a worker's row and give its runs back to the queue: its late writes are refused."""
    tables.workers.pop(worker_id, None)
    owned = [r for r in tables.runs.values() if (r.owner, r.status) == (worker_id, "running")]
    for run in owned:
        tables.runs[run.run_id] = replace(run, status="pending", owner="")
    return [tables.runs[run.run_id] for run in owned]


def _forget_work(tables: Tables, key: str) -> None:
    """Remove a thread's approvals, batches with their items, and queued memories."""
    tables.approvals = {k: v for k, v in tables.approvals.items() if v.thread_key != key}
    for batch_id in [b.batch_id for b in tables.batches.values() if b.thread_key == key]:
        del tables.batches[batch_id], tables.items[batch_id]
    tables.deliveries = {k: v for k, v in tables.deliveries.items() if v.row.thread_key != key}
    tables.feedback = {k: v for k, v in tables.feedback.items() if v.thread_key != key}
    tables.exchanges = {k: v for k, v in tables.exchanges.items() if v.entry.thread_key != key}
