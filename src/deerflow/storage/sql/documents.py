"""Preferences, feedback and assistants in SQL."""

from __future__ import annotations

import time
from typing import Any

from deerflow.errors import ConflictError
from deerflow.storage.accounts import AssistantRow, FeedbackRow
from deerflow.storage.encoding import dump_json, load_json, pack, unpack
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.driver import Connection
from deerflow.storage.sql.reader import Readers
from deerflow.storage.sql.writer import Writer

_PREFER = (
    "INSERT INTO preferences (user_id, name, updated_at, data) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (user_id, name) DO UPDATE"
    " SET updated_at = excluded.updated_at, data = excluded.data"
)
_UNSET = "DELETE FROM preferences WHERE user_id = ? AND name = ?"
_FEEDBACK = (
    "SELECT f.feedback_id, k.thread_key, f.run_id, f.user_id, f.rating, f.created_at, f.data"
    " FROM feedback f JOIN thread_keys k ON k.id = f.thread"
)
_OF_THREAD = f"{_FEEDBACK} WHERE k.thread_key = ?"
_OF_RUN_AND_USER = f"{_FEEDBACK} WHERE f.run_id = ? AND f.user_id = ?"
_PUT_FEEDBACK = (
    "INSERT INTO feedback (feedback_id, thread, run_id, user_id, rating, created_at, data)"
    " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id, user_id) DO UPDATE"
    " SET rating = excluded.rating, data = excluded.data"
)
_REMOVE_FEEDBACK = (
    "DELETE FROM feedback WHERE run_id = ? AND user_id = ?"
    " AND thread = (SELECT id FROM thread_keys WHERE thread_key = ?)"
)
_ASSISTANTS = "SELECT user_id, assistant_id, version, created_at, data FROM assistants"
_NEWEST = (
    "SELECT a.user_id, a.assistant_id, a.version, a.created_at, a.data"
    " FROM assistants a JOIN ("
    " SELECT assistant_id, min(version) AS first, max(version) AS last FROM assistants"
    " WHERE user_id = ? GROUP BY assistant_id"
    " ) n ON n.assistant_id = a.assistant_id AND n.last = a.version"
    " JOIN assistants o ON o.user_id = a.user_id AND o.assistant_id = a.assistant_id"
    " AND o.version = n.first WHERE a.user_id = ? ORDER BY o.created_at, a.assistant_id"
)
_PUT_ASSISTANT = (
    "INSERT INTO assistants (user_id, assistant_id, version, created_at, data)"
    " VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)


def _value(data: bytes) -> Any:
    return load_json(unpack(data))


def _feedback(found: tuple[Any, ...]) -> FeedbackRow:
    return FeedbackRow(*found[:6], data=_value(found[6]))


def _assistant(found: tuple[Any, ...]) -> AssistantRow:
    return AssistantRow(*found[:4], data=_value(found[4]))


class SqlDocuments:
    """Documents on the writer's queue."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def preference(self, user_id: str, name: str) -> Any:
        """See Documents."""
        sql = "SELECT data FROM preferences WHERE user_id = ? AND name = ?"
        rows = await self._all(sql, user_id, name)
        return _value(rows[0][0]) if rows else None

    async def preferences(self, user_id: str) -> dict[str, Any]:
        """See Documents."""
        sql = "SELECT name, data FROM preferences WHERE user_id = ?"
        return {name: _value(data) for name, data in await self._all(sql, user_id)}

    async def prefer(self, user_id: str, name: str, value: Any) -> None:
        """See Documents."""
        if value is None:
            await self._write(_UNSET, user_id, name)
        else:
            await self._write(_PREFER, user_id, name, time.time(), pack(dump_json(value)))

    async def put_feedback(self, row: FeedbackRow) -> FeedbackRow:
        """See Documents."""
        data = pack(dump_json(row.data))

        def work(batch: Batch) -> FeedbackRow:
            connection, ref = batch.connection, batch.thread(row.thread_key)
            whose = (row.run_id, row.user_id)
            values = (row.feedback_id, ref.id, *whose, row.rating, row.created_at, data)
            connection.execute(_PUT_FEEDBACK, values)
            return _feedback(connection.execute(_OF_RUN_AND_USER, whose).fetchone())

        return await self._writer.submit(work, scope=row.thread_key)

    async def feedback(self, thread_key: str, *, run_id: str | None = None) -> list[FeedbackRow]:
        """See Documents."""
        sql, values = _OF_THREAD, [thread_key]
        if run_id is not None:
            sql, values = f"{sql} AND f.run_id = ?", [thread_key, run_id]
        rows = await self._all(f"{sql} ORDER BY f.created_at, f.feedback_id", *values)
        return [_feedback(row) for row in rows]

    async def remove_feedback(
        self, thread_key: str, run_id: str, user_id: str, feedback_id: str | None = None
    ) -> bool:
        """See Documents."""
        sql, values = _REMOVE_FEEDBACK, [run_id, user_id, thread_key]
        if feedback_id is not None:
            sql, values = f"{sql} AND feedback_id = ?", [*values, feedback_id]
        return await self._write(sql, *values) > 0

    async def put_assistant(self, row: AssistantRow) -> None:
        """See Documents."""
        names = (row.user_id, row.assistant_id, row.version, row.created_at)
        if await self._write(_PUT_ASSISTANT, *names, pack(dump_json(row.data))) == 0:
            raise ConflictError(f"The assistant has a version {row.version} already.")

    async def assistants(self, user_id: str) -> list[AssistantRow]:
        """See Documents."""
        return [_assistant(row) for row in await self._all(_NEWEST, user_id, user_id)]

    async def assistant_versions(self, user_id: str, assistant_id: str) -> list[AssistantRow]:
        """See Documents."""
        sql = f"{_ASSISTANTS} WHERE user_id = ? AND assistant_id = ? ORDER BY version DESC"
        return [_assistant(row) for row in await self._all(sql, user_id, assistant_id)]

    async def remove_assistant(self, user_id: str, assistant_id: str) -> bool:
        """See Documents."""
        sql = "DELETE FROM assistants WHERE user_id = ? AND assistant_id = ?"
        return await self._write(sql, user_id, assistant_id) > 0

    async def _all(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        def query(connection: Connection) -> list[tuple[Any, ...]]:
            return connection.execute(sql, values).fetchall()

        return await self._readers.read(query)

    async def _write(self, sql: str, *values: Any) -> int:
        """Run one statement; the number of rows that it changed."""

        def work(batch: Batch) -> int:
            return batch.connection.execute(sql, values).rowcount

        return await self._writer.submit(work)
