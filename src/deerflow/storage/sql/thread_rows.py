"""Rows of threads: how they are read and made inside a transaction."""

from __future__ import annotations

from typing import Any

from deerflow.storage.encoding import load_json
from deerflow.storage.protocol import ThreadRow
from deerflow.storage.sql.batch import new_key
from deerflow.storage.sql.driver import Connection

THREAD_COLUMNS = (
    "t.user_id, t.thread_id, k.thread_key, t.title, t.created_at, t.updated_at, t.status,"
    " t.metadata, k.last_seq"
)
SELECT_THREAD = f"SELECT {THREAD_COLUMNS} FROM threads t JOIN thread_keys k ON k.id = t.id"  # noqa: S608
_ONE = f"{SELECT_THREAD} WHERE t.user_id = ? AND t.thread_id = ?"
_INSERT = (
    "INSERT INTO threads (id, user_id, thread_id, title, status, created_at, updated_at, metadata)"
    " VALUES (?, ?, ?, '', 'idle', ?, ?, ?)"
)


def thread_row(row: tuple[Any, ...]) -> ThreadRow:
    """A row of SELECT_THREAD."""
    return ThreadRow(*row[:7], metadata=load_json(row[7]), last_seq=row[8])


def one_thread(connection: Connection, user_id: str, thread_id: str) -> ThreadRow | None:
    """A user's thread."""
    row = connection.execute(_ONE, (user_id, thread_id)).fetchone()
    return None if row is None else thread_row(row)


def insert_thread(connection: Connection, row: ThreadRow, metadata: str) -> None:
    """Write a thread's rows; `metadata` is the row's as JSON.

    Raises:
        ConflictError: its key was used before.
    """
    id = new_key(connection, row.thread_key)
    values = (row.user_id, row.thread_id, row.created_at, row.updated_at, metadata)
    connection.execute(_INSERT, (id, *values))
