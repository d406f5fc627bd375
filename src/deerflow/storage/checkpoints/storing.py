"""Writing checkpoints inside the writer's transactions, and thinning their snapshots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from deerflow.storage.checkpoints.address import Address, pack_id
from deerflow.storage.checkpoints.chain import Write, merged
from deerflow.storage.checkpoints.rows import Packed, Rows, pack_row
from deerflow.storage.encoding import pack
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.driver import Connection

_PUT = (
    "INSERT INTO checkpoints (thread, ns, checkpoint_id, parent, run_id, data)"
    " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (thread, ns, checkpoint_id) DO UPDATE SET"
    " parent = excluded.parent, run_id = excluded.run_id, data = excluded.data RETURNING id"
)
_STUB = "INSERT INTO checkpoints (thread, ns, checkpoint_id) VALUES (?, ?, ?)"
_FIND = "SELECT id FROM checkpoints WHERE thread = ? AND ns = ? AND checkpoint_id = ?"
_WRITES = (
    "INSERT INTO checkpoint_writes (checkpoint, task, path, data) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (checkpoint, task) DO NOTHING"
)
_THIN = (
    "FROM checkpoint_values WHERE channel = ? AND thin > 0"
    " AND checkpoint IN (SELECT id FROM checkpoints WHERE thread = ? AND ns = ?)"
)


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


def put_work(put: Put) -> Callable[[Batch], None]:
    """The operation that stores a checkpoint."""

    def work(batch: Batch) -> None:
        connection, at = batch.connection, put.at
        thread = batch.thread(at.thread_key).id
        parent = pack_id(put.parent) if put.parent else None
        key = (thread, at.ns, pack_id(at.checkpoint_id))
        row = connection.execute(_PUT, (*key, parent, put.run_id, pack_row(put.packed.data)))
        id = row.fetchall()[0][0]
        for channel, data in put.packed.large.items():
            thin = 0
            if channel in put.thin:
                thin = _thin(connection, channel, thread, at.ns)
            connection.execute(
                "INSERT OR REPLACE INTO checkpoint_values (checkpoint, channel, thin, data)"
                " VALUES (?, ?, ?, ?)",
                (id, channel, thin, pack(data)),
            )

    return work


def _thin(connection: Connection, channel: str, thread: int, ns: str) -> int:
    """Ordinal of a new snapshot; older ones stay where their ordinal is a power of two.

    So n snapshots of a growing history cost about three times the newest one, and a branch from anywhere replays at
    most half of its history.
    """
    key = (channel, thread, ns)
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
        key = (thread, at.ns, pack_id(at.checkpoint_id))
        found = connection.execute(_FIND, key).fetchone()
        id = found[0] if found else connection.execute(_STUB, key).lastrowid
        if connection.execute(_WRITES, (id, task, path, data)).rowcount:
            return
        old_path, old = connection.execute(
            "SELECT path, data FROM checkpoint_writes WHERE checkpoint = ? AND task = ?", (id, task)
        ).fetchone()
        both = merged(rows.unpack_writes(task, old_path, old), writes)
        connection.execute(
            "UPDATE checkpoint_writes SET data = ? WHERE checkpoint = ? AND task = ?",
            (rows.pack_writes(list(both.values())), id, task),
        )

    return work
