"""Runs in memory, and the threads that they belong to."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Iterator
from dataclasses import replace
from typing import Any

from deerflow.errors import ConflictError, NotFoundError, ThreadGoneError
from deerflow.storage.checkpoints.memory import MemorySaver
from deerflow.storage.encoding import copied
from deerflow.storage.inmemory_tables import Tables
from deerflow.storage.protocol import RunRow, ThreadRow
from deerflow.storage.states import ABANDONED, ACTIVE, QUEUED, THREAD_STATUS
from deerflow.storage.ticket import failed_ticket, settled_ticket


class MemoryRuns:
    """The part of `Threads` that starts and ends runs."""

    def __init__(self, tables: Tables, saver: MemorySaver, owner: str) -> None:
        self._tables = tables
        self._saver = saver
        self._owner = owner

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
