"""Threads and their runs in SQL."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Iterable
from dataclasses import replace
from typing import Any

from deerflow.errors import ThreadGoneError
from deerflow.storage.checkpoints.untouched import Untouched
from deerflow.storage.encoding import column_text, dump_json, load_json
from deerflow.storage.protocol import RunRow, ThreadQuery, ThreadRow
from deerflow.storage.sql.batch import GONE, Batch
from deerflow.storage.sql.batches import delete_batches
from deerflow.storage.sql.blobs import release_all
from deerflow.storage.sql.copying import copy_thread
from deerflow.storage.sql.driver import Connection
from deerflow.storage.sql.reader import Readers
from deerflow.storage.sql.runs import (
    FIRST_OPEN,
    ONE_RUN,
    SELECT_RUN,
    end_work,
    one_run,
    reopen_work,
    run_row,
    start_work,
)
from deerflow.storage.sql.search import count_threads, search_threads
from deerflow.storage.sql.thread_rows import (
    SELECT_THREAD,
    insert_thread,
    one_thread,
    thread_row,
)
from deerflow.storage.sql.writer import Writer
from deerflow.storage.states import ABANDONED

_BY_KEY = f"{SELECT_THREAD} WHERE k.thread_key = ?"
_NEWEST = (
    f"{SELECT_THREAD} WHERE t.user_id = ? ORDER BY t.updated_at DESC, k.thread_key DESC LIMIT ?"
)
_OLDER = (
    f"{SELECT_THREAD} WHERE t.user_id = ? AND t.updated_at <= ?"
    " AND (t.updated_at < ? OR k.thread_key < ?)"
    " ORDER BY t.updated_at DESC, k.thread_key DESC LIMIT ?"
)
_CHECKPOINTS = ("checkpoint_values", "checkpoint_writes", "checkpoints")
_WORK = ("approvals", "memory_queue", "deliveries", "feedback")
_OWNED = ("run_events", "run_deltas", "tool_calls", "model_calls", "runs", *_CHECKPOINTS, *_WORK)
"""Tables whose rows name their thread."""


Found = list[ThreadRow]
"""Inside the class `list` is the method."""


def delete_rows(connection: Connection, thread: int, tables: Iterable[str]) -> None:
    """Remove a thread's rows from some of the tables above."""
    for table in tables:
        connection.execute(f"DELETE FROM {table} WHERE thread = ?", (thread,))  # noqa: S608


def delete_checkpoints(connection: Connection, thread: int) -> None:
    """Remove a thread's checkpoints with their values and writes."""
    delete_rows(connection, thread, _CHECKPOINTS)


def remove_thread(batch: Batch, key: str) -> None:
    """Remove a thread with everything of it; its key is retired."""
    connection, ref = batch.connection, batch.thread(key)
    delete_rows(connection, ref.id, _OWNED)
    delete_batches(connection, ref.id)
    release_all(connection, ref.id)
    connection.execute("DELETE FROM threads WHERE id = ?", (ref.id,))
    connection.execute("UPDATE thread_keys SET retired_at = ? WHERE id = ?", (time.time(), ref.id))
    del batch.refs[key]
    batch.deleted.append(key)


class SqlThreads:
    """Threads on the writer's queue.

    Args:
        owner: who runs the runs that are started here.
        untouched: told of threads that are made with their first run, and of the runs' ends.
    """

    def __init__(self, writer: Writer, readers: Readers, owner: str, untouched: Untouched) -> None:
        self._writer = writer
        self._readers = readers
        self._owner = owner
        self._untouched = untouched

    async def ensure(
        self, user_id: str, thread_id: str, metadata: dict[str, Any] | None = None
    ) -> ThreadRow:
        """See Threads."""
        text = dump_json(metadata or {}).decode()
        row = ThreadRow.new(user_id, thread_id, load_json(text))

        def work(batch: Batch) -> ThreadRow:
            found = one_thread(batch.connection, user_id, thread_id)
            if found is not None:
                return found
            insert_thread(batch.connection, row, text)
            return row

        found = await self.get(user_id, thread_id)
        return found or await self._writer.submit(work)

    async def get(self, user_id: str, thread_id: str) -> ThreadRow | None:
        """See Threads."""
        return await self._readers.read(lambda c: one_thread(c, user_id, thread_id), scope="")

    async def list(
        self, user_id: str, *, limit: int = 50, before: tuple[float, str] | None = None
    ) -> list[ThreadRow]:
        """See Threads."""

        def query(connection: Connection) -> list[ThreadRow]:
            if before is None:
                rows = connection.execute(_NEWEST, (user_id, limit)).fetchall()
            else:
                updated, key = before
                rows = connection.execute(
                    _OLDER, (user_id, updated, updated, key, limit)
                ).fetchall()
            return [thread_row(row) for row in rows]

        return await self._readers.read(query, scope="")

    async def by_key(self, thread_key: str) -> ThreadRow | None:
        """See Threads."""

        def query(connection: Connection) -> ThreadRow | None:
            row = connection.execute(_BY_KEY, (thread_key,)).fetchone()
            return None if row is None else thread_row(row)

        return await self._readers.read(query, scope="")

    async def search(self, user_id: str, query: ThreadQuery) -> Found:
        """See Threads."""
        return await self._readers.read(lambda c: search_threads(c, user_id, query), scope="")

    async def count(self, user_id: str, query: ThreadQuery) -> int:
        """See Threads."""
        return await self._readers.read(lambda c: count_threads(c, user_id, query), scope="")

    async def describe(self, thread_key: str, metadata: dict[str, Any]) -> ThreadRow:
        """See Threads."""
        changes: dict[str, Any] = load_json(dump_json(metadata))

        def work(batch: Batch) -> ThreadRow:
            ref = batch.thread(thread_key)
            row = batch.connection.execute(_BY_KEY, (thread_key,)).fetchone()
            if row is None:
                raise ThreadGoneError(GONE)
            found = thread_row(row)
            merged = {**found.metadata, **changes}
            merged = {key: value for key, value in merged.items() if value is not None}
            batch.connection.execute(
                "UPDATE threads SET metadata = ? WHERE id = ?", (dump_json(merged).decode(), ref.id)
            )
            return replace(found, metadata=merged)

        return await self._writer.submit(work, scope=thread_key, fenced=False)

    async def copy(
        self,
        source_key: str,
        target: ThreadRow,
        *,
        seq: int | None = None,
        checkpoint_id: str | None = None,
    ) -> ThreadRow | None:
        """See Threads."""
        text = dump_json(target.metadata).decode()

        def work(batch: Batch) -> ThreadRow | None:
            return copy_thread(batch, source_key, (target, text), seq, checkpoint_id)

        return await self._writer.submit(work, scope=source_key)

    def update(
        self, thread_key: str, *, title: str | None = None, status: str | None = None
    ) -> Awaitable[None]:
        """See Threads."""
        clean = None if title is None else column_text(title)

        def work(batch: Batch) -> None:
            ref = batch.thread(thread_key)
            batch.connection.execute(
                "UPDATE threads SET title = coalesce(?, title), status = coalesce(?, status)"
                " WHERE id = ?",
                (clean, status, ref.id),
            )

        return self._writer.submit(work, scope=thread_key)

    async def delete(self, user_id: str, thread_id: str) -> str | None:
        """See Threads."""

        def work(batch: Batch) -> str | None:
            found = one_thread(batch.connection, user_id, thread_id)
            if found is None:
                return None
            remove_thread(batch, found.thread_key)
            return found.thread_key

        key = await self._writer.submit(work)
        self._untouched.discard(key or "")
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
        work = start_work(thread_key, run_id, self._owner, (input, config), event)
        row = await self._writer.submit(work, scope=thread_key)
        self._writer.fences.claimed(run_id, thread_key)
        return row

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
        key, text = thread.thread_key, dump_json(thread.metadata).decode()
        start = start_work(key, run_id, self._owner, (input, config), event)

        def work(batch: Batch) -> RunRow | None:
            if one_thread(batch.connection, thread.user_id, thread.thread_id) is not None:
                return None
            insert_thread(batch.connection, thread, text)
            return start(batch)

        run = None
        self._untouched.add(key, run_id)  # before it exists, so before anybody puts something
        try:
            run = await self._writer.submit(work, scope=key)
        finally:
            if run is None:
                self._untouched.discard(key)
        if run is not None:
            self._writer.fences.claimed(run_id, key)
        return run

    async def reopen_run(self, thread_key: str, run_id: str) -> RunRow:
        """See Threads."""
        work = reopen_work(thread_key, run_id, self._owner)
        row = await self._writer.submit(work, scope=thread_key)
        self._writer.fences.claimed(run_id, thread_key)
        return row

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
        self._untouched.ended(run_id)
        work = end_work(run_id, status, (outcome, error, usage), event)
        scope = self._writer.fences.released(run_id)
        return self._writer.submit(work, scope=scope, guarded=status == "success")

    async def runs(self, thread_key: str, *, limit: int = 50) -> list[RunRow]:
        """See Threads."""

        def query(connection: Connection) -> list[RunRow]:
            rows = connection.execute(
                f"{SELECT_RUN} WHERE k.thread_key = ? ORDER BY r.id DESC LIMIT ?",
                (thread_key, limit),
            ).fetchall()
            return [run_row(row) for row in rows]

        return await self._readers.read(query, scope="")

    async def run(self, run_id: str) -> RunRow | None:
        """See Threads."""
        return await self._readers.read(lambda c: one_run(c, ONE_RUN, run_id), scope="")

    async def active_run(self, thread_key: str) -> RunRow | None:
        """See Threads."""
        return await self._readers.read(lambda c: one_run(c, FIRST_OPEN, thread_key), scope="")

    async def abandon_run(self, run_id: str) -> None:
        """See Threads."""
        if await self.run(run_id) is not None:
            await self.end_run(run_id, status="error", outcome=None, error=ABANDONED)
