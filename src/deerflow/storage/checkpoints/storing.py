"""Writing checkpoints inside the writer's transactions, and thinning their snapshots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from deerflow.storage.checkpoints.address import Address, pack_id
from deerflow.storage.checkpoints.chain import Write, merged
from deerflow.storage.checkpoints.rows import Packed, Rows, pack_row
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.driver import Connection

_PUT = (
    "INSERT INTO checkpoints (thread, ns, checkpoint_id, parent, run_id, data)"
    " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (thread, ns, checkpoint_id) DO UPDATE"
    " SET parent = excluded.parent, run_id = excluded.run_id, data = excluded.data"
)
VALUE = (
    "INSERT INTO checkpoint_values (thread, ns, channel, checkpoint_id, thin, data)"
    " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (thread, ns, channel, checkpoint_id) DO UPDATE"
    " SET thin = excluded.thin, data = excluded.data"
)
_WRITES = (
    "INSERT INTO checkpoint_writes (thread, ns, checkpoint_id, task, path, data)"
    " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (thread, ns, checkpoint_id, task) DO NOTHING"
)
_OLD = (
    "SELECT path, data FROM checkpoint_writes"
    " WHERE thread = ? AND ns = ? AND checkpoint_id = ? AND task = ?"
)
_MERGE = (
    "UPDATE checkpoint_writes SET data = ?"
    " WHERE thread = ? AND ns = ? AND checkpoint_id = ? AND task = ?"
)
_THIN = "FROM checkpoint_values WHERE thread = ? AND ns = ? AND channel = ? AND thin > 0"


@dataclass(frozen=True, slots=True)
class Put:
    """A checkpoint to store.

    Attributes:
        at: its address.
        parent: id of the checkpoint before it, or "".
        run_id: run that wrote it, or None.
        packed: its content.
        thin: channels whose snapshot may be thinned later.
    """

    at: Address
    parent: str
    run_id: str | None
    packed: Packed
    thin: frozenset[str]


def put_work(put: Put, rows: Rows) -> Callable[[Batch], None]:
    """The operation that stores a checkpoint."""

    def work(batch: Batch) -> None:
        connection, at = batch.connection, put.at
        thread = batch.thread(at.thread_key).id
        parent = pack_id(put.parent) if put.parent else None
        id = pack_id(at.checkpoint_id)
        data = pack_row(put.packed.data)
        size = len(data)
        connection.execute(_PUT, (thread, at.ns, id, parent, put.run_id, data))
        for channel, value in put.packed.large.items():
            key = (thread, at.ns, channel)
            thin = _thin(connection, key) if channel in put.thin else 0
            large = rows.pack_large(value)
            size += len(large)
            connection.execute(VALUE, (*key, id, thin, large))
        batch.checkpoint_bytes = size

    return work


def _thin(connection: Connection, key: tuple[int, str, str]) -> int:
    """Ordinal of a new snapshot; older ones stay where their ordinal is a power of two.

    So n snapshots of a growing history cost about three times the newest one, and a branch from
    anywhere replays at most half of its history.
    """
    newest = connection.execute(f"SELECT max(thin) {_THIN}", key).fetchone()[0]
    connection.execute(f"DELETE {_THIN} AND (thin & (thin - 1)) != 0", key)
    return int(newest or 0) + 1


def writes_work(
    at: Address, task_id: str, path: str, writes: list[Write], rows: Rows
) -> Callable[[Batch], None]:
    """The operation that stores a task's writes; those that it has already stay as they are."""
    data, task = rows.pack_writes(writes), pack_id(task_id)

    def work(batch: Batch) -> None:
        connection = batch.connection
        thread = batch.thread(at.thread_key).id
        key = (thread, at.ns, pack_id(at.checkpoint_id), task)
        if connection.execute(_WRITES, (*key, path, data)).rowcount:
            return
        old_path, old = connection.execute(_OLD, key).fetchone()
        both = merged(rows.unpack_writes(task, old_path, old), writes)
        connection.execute(_MERGE, (rows.pack_writes(list(both.values())), *key))

    return work
