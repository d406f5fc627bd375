"""Copies a thread into a new one: states, log and references to blobs, in one transaction."""

from __future__ import annotations

from typing import Any

from deerflow.errors import NotFoundError
from deerflow.storage.checkpoints.address import pack_id
from deerflow.storage.protocol import ThreadRow
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.thread_rows import insert_thread, one_thread

_EVENTS = "seq, run_id, type, created_at, payload"
_STATES = {
    "checkpoint_values": ("ns, channel, checkpoint_id, thin, data", "<="),
    "checkpoint_writes": ("ns, checkpoint_id, task, path, data", "<"),
    "checkpoints": ("ns, checkpoint_id, parent, run_id, data", "<="),
}
"""Table → columns, and which ids belong to a state: what was written onto it comes after it."""


def copy_thread(
    batch: Batch, source_key: str, target: tuple[ThreadRow, str], seq: int | None, head: str | None
) -> ThreadRow | None:
    """Make a thread that holds what another one does.

    Args:
        batch: the transaction.
        source_key: the thread that is read.
        target: the new thread, and its metadata as JSON.
        seq: last event that is copied, None for all.
        head: last state that is copied, None for all; ids are in the order of their making.

    Returns:
        None when the user has a thread of the new id by now; nothing is written then.

    Raises:
        NotFoundError: there is no such source.
        ThreadGoneError: it was deleted.
    """
    connection, (row, metadata) = batch.connection, target
    if connection.execute(_THREAD, (source_key,)).fetchone() is None:
        raise NotFoundError("There is no such thread.")
    source = batch.thread(source_key)
    if one_thread(connection, row.user_id, row.thread_id) is not None:
        return None
    insert_thread(connection, row, metadata)
    made = batch.thread(row.thread_key)
    last = source.last_seq if seq is None else min(seq, source.last_seq)
    _rows(batch, "run_events", _EVENTS, (made.id, source.id), ("seq <= ?", last))
    for table, (columns, bound) in _STATES.items():
        upto = None if head is None else (f"checkpoint_id {bound} ?", pack_id(head))
        _rows(batch, table, columns, (made.id, source.id), upto)
    _rows(batch, "blob_refs", "blob", (made.id, source.id), None)
    connection.execute("UPDATE thread_keys SET last_seq = ? WHERE id = ?", (last, made.id))
    connection.execute("UPDATE threads SET title = ? WHERE id = ?", (row.title, made.id))
    made.last_seq = last
    return one_thread(connection, row.user_id, row.thread_id)


_THREAD = "SELECT 1 FROM threads t JOIN thread_keys k ON k.id = t.id WHERE k.thread_key = ?"


def _rows(
    batch: Batch, table: str, columns: str, threads: tuple[int, int], upto: tuple[str, Any] | None
) -> None:
    """Copy a thread's rows of one table; `upto` is a further condition with its value."""
    target, source = threads
    condition, values = upto or ("1 = 1", None)
    given = (target, source) if upto is None else (target, source, values)
    batch.connection.execute(
        f"INSERT INTO {table} (thread, {columns})"  # noqa: S608  # names stand above
        f" SELECT ?, {columns} FROM {table} WHERE thread = ? AND {condition}",
        given,
    )
