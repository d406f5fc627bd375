"""Threads and their runs in SQL."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Iterable
from typing import Any

from deerflow.errors import ConflictError
from deerflow.storage.checkpoints.untouched import Untouched
from deerflow.storage.encoding import clean_text, dump_json, load_json
from deerflow.storage.protocol import RunRow, ThreadRow
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.batches import delete_batches
from deerflow.storage.sql.blobs import release_all
from deerflow.storage.sql.driver import Connection
from deerflow.storage.sql.reader import Readers
from deerflow.storage.sql.runs import (
    ACTIVE,
    ONE_RUN,
    SELECT_RUN,
    end_work,
    one_run,
    reopen_work,
    run_row,
    start_work,
)
from deerflow.storage.sql.writer import Writer
from deerflow.storage.states import ABANDONED

_SELECT = (
    "SELECT t.user_id, t.thread_id, k.thread_key, t.title, t.created_at, t.updated_at, t.status,"
    " t.metadata, k.last_seq FROM threads t JOIN thread_keys k ON k.id = t.id"
)
_ONE = f"{_SELECT} WHERE t.user_id = ? AND t.thread_id = ?"
_NEWEST = f"{_SELECT} WHERE t.user_id = ? ORDER BY t.updated_at DESC, k.thread_key DESC LIMIT ?"
_OLDER = (
    f"{_SELECT} WHERE t.user_id = ? AND t.updated_at <= ?"
    " AND (t.updated_at < ? OR k.thread_key < ?)"
    " ORDER BY t.updated_at DESC, k.thread_key DESC LIMIT ?"
)
_CHECKPOINTS = ("checkpoint_values", "checkpoint_writes", "checkpoints")
_WORK = ("approvals", "memory_queue")
_OWNED = ("run_events", "run_deltas", "tool_calls", "model_calls", "runs", *_CHECKPOINTS, *_WORK)
"""Tables whose rows name their thread."""


def _thread_row(row: tuple[Any, ...]) -> ThreadRow:
    return ThreadRow(*row[:7], metadata=load_json(row[7]), last_seq=row[8])


def _one(connection: Connection, user_id: str, thread_id: str) -> ThreadRow | None:
    row = connection.execute(_ONE, (user_id, thread_id)).fetchone()
    return None if row is None else _thread_row(row)


def _insert(connection: Connection, row: ThreadRow, metadata: str) -> None:
    """Write a thread's rows; `metadata` is the row's as JSON.

    Raises:
        ConflictError: its key was used before.
    """
    cursor = connection.execute(
        "INSERT OR IGNORE INTO thread_keys (thread_key, last_seq) VALUES (?, 0)", (row.thread_key,)
    )
    if not cursor.rowcount:
        raise ConflictError("A thread with this key existed before.")
    connection.execute(
        "INSERT INTO threads (id, user_id, thread_id, title, status, created_at,"
        " updated_at, metadata) VALUES (?, ?, ?, '', 'idle', ?, ?, ?)",
        (cursor.lastrowid, row.user_id, row.thread_id, row.created_at, row.updated_at, metadata),
    )


def delete_rows(connection: Connection, thread: int, tables: Iterable[str]) -> None:
    """Remove a thread's rows from some of the tables above."""
    for table in tables:
        connection.execute(f"DELETE FROM {table} WHERE thread = ?", (thread,))  # noqa: S608


def delete_checkpoints(connection: Connection, thread: int) -> None:
    """Remove a thread's checkpoints with their values and writes."""
    delete_rows(connection, thread, _CHECKPOINTS)


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
            found = _one(batch.connection, user_id, thread_id)
            if found is not None:
                return found
            _insert(batch.connection, row, text)
            return row

        found = await self.get(user_id, thread_id)
        return found or await self._writer.submit(work)

    async def get(self, user_id: str, thread_id: str) -> ThreadRow | None:
        """See Threads."""
        return await self._readers.read(lambda c: _one(c, user_id, thread_id), scope="")

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
            return [_thread_row(row) for row in rows]

        return await self._readers.read(query, scope="")

    def update(
        self, thread_key: str, *, title: str | None = None, status: str | None = None
    ) -> Awaitable[None]:
        """See Threads."""
        clean = None if title is None else clean_text(title)

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
            connection = batch.connection
            found = _one(connection, user_id, thread_id)
            if found is None:
                return None
            ref = batch.thread(found.thread_key)
            delete_rows(connection, ref.id, _OWNED)
            delete_batches(connection, ref.id)
            release_all(connection, ref.id)
            connection.execute("DELETE FROM threads WHERE id = ?", (ref.id,))
            connection.execute(
                "UPDATE thread_keys SET retired_at = ? WHERE id = ?", (time.time(), ref.id)
            )
            del batch.refs[found.thread_key]
            batch.deleted.append(found.thread_key)
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
        return await self._writer.submit(work, scope=thread_key)

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
            if _one(batch.connection, thread.user_id, thread.thread_id) is not None:
                return None
            _insert(batch.connection, thread, text)
            return start(batch)

        run = None
        self._untouched.add(key, run_id)  # before it exists, so before anybody puts something
        try:
            run = await self._writer.submit(work, scope=key)
        finally:
            if run is None:
                self._untouched.discard(key)
        return run

    async def reopen_run(self, thread_key: str, run_id: str) -> RunRow:
        """See Threads."""
        work = reopen_work(thread_key, run_id, self._owner)
        return await self._writer.submit(work, scope=thread_key)

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
        return self._writer.submit(end_work(run_id, status, (outcome, error, usage), event))

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
        return await self._readers.read(lambda c: one_run(c, ACTIVE, thread_key), scope="")

    async def abandon_run(self, run_id: str) -> None:
        """See Threads."""
        if await self.run(run_id) is not None:
            await self.end_run(run_id, status="error", outcome=None, error=ABANDONED)
