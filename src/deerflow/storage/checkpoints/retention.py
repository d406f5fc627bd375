"""Removing and copying checkpoints without cutting what a delta channel is rebuilt from."""

from __future__ import annotations

from collections.abc import Callable

from deerflow.storage.checkpoints.address import Address
from deerflow.storage.checkpoints.chain import COUNTERS
from deerflow.storage.checkpoints.rows import Row, Rows
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.driver import Connection

_ALL = (
    "SELECT id, checkpoint_id, parent, run_id, data FROM checkpoints"
    " WHERE thread = ? AND ns = ? AND data IS NOT NULL ORDER BY checkpoint_id"
)


def needed_by(connection: Connection, rows: Rows, at: Address, row: Row) -> set[str]:
    """Ids that a checkpoint cannot do without: its deltas' ancestors and the holders of its values."""
    missing = set(row.metadata.get(COUNTERS) or ())
    needed = set(row.holders.values())
    if not missing:
        return needed
    for above in rows.ancestors(connection, at, row):
        needed.add(above.checkpoint_id)
        needed.update(above.holders[channel] for channel in missing if channel in above.holders)
        missing = {
            channel for channel in missing if not _shows(connection, rows, at, above, channel)
        }
        if not missing:
            break
    return needed


def _shows(connection: Connection, rows: Rows, at: Address, row: Row, channel: str) -> bool:
    if channel not in row.inline and channel not in row.holders:
        return False
    try:
        rows.value(connection, at, row, channel)
    except KeyError:
        return False
    return True


def drop_work(
    rows: Rows, thread_key: str, doomed: Callable[[list[Row]], set[str]]
) -> Callable[[Batch], None]:
    """The operation that removes checkpoints of one thread.

    Args:
        rows: how to read them.
        thread_key: the thread.
        doomed: given the rows of a namespace, oldest first, the ids to remove; what the others need stays.
    """

    def work(batch: Batch) -> None:
        connection, thread = batch.connection, batch.thread(thread_key).id
        spaces = connection.execute(
            "SELECT DISTINCT ns FROM checkpoints WHERE thread = ?", (thread,)
        ).fetchall()
        for (ns,) in spaces:
            found = [rows.row(row) for row in connection.execute(_ALL, (thread, ns)).fetchall()]
            gone = doomed(found)
            at = Address(thread_key, ns)
            for row in found:
                if row.checkpoint_id not in gone:
                    gone = gone - needed_by(connection, rows, at, row)
            for row in found:
                if row.checkpoint_id in gone:
                    _delete(connection, row.id)

    return work


def _delete(connection: Connection, id: int) -> None:
    connection.execute("DELETE FROM checkpoint_values WHERE checkpoint = ?", (id,))
    connection.execute("DELETE FROM checkpoint_writes WHERE checkpoint = ?", (id,))
    connection.execute("DELETE FROM checkpoints WHERE id = ?", (id,))


def copy_work(source_key: str, target_key: str) -> Callable[[Batch], None]:
    """The operation that copies a thread's checkpoints, and its references to blobs, to another key."""

    def work(batch: Batch) -> None:
        connection = batch.connection
        source, target = batch.thread(source_key).id, batch.thread(target_key).id
        found = connection.execute(
            "SELECT id, ns, checkpoint_id, parent, run_id, data FROM checkpoints WHERE thread = ?",
            (source,),
        ).fetchall()
        for id, *columns in found:
            new = connection.execute(
                "INSERT INTO checkpoints (thread, ns, checkpoint_id, parent, run_id, data)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (target, *columns),
            ).lastrowid
            connection.execute(
                "INSERT INTO checkpoint_values (checkpoint, channel, thin, data)"
                " SELECT ?, channel, thin, data FROM checkpoint_values WHERE checkpoint = ?",
                (new, id),
            )
            connection.execute(
                "INSERT INTO checkpoint_writes (checkpoint, task, path, data)"
                " SELECT ?, task, path, data FROM checkpoint_writes WHERE checkpoint = ?",
                (new, id),
            )
        connection.execute(
            "INSERT OR IGNORE INTO blob_refs (thread, blob)"
            " SELECT ?, blob FROM blob_refs WHERE thread = ?",
            (target, source),
        )

    return work
