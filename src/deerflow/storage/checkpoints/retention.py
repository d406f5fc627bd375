"""Removing and copying checkpoints without cutting what a delta channel is rebuilt from."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from deerflow.storage.checkpoints.address import Address, pack_id
from deerflow.storage.checkpoints.chain import COUNTERS
from deerflow.storage.checkpoints.rows import Row, Rows
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.driver import Connection

ALL_ROWS = (
    "SELECT thread, checkpoint_id, parent, run_id, data FROM checkpoints"
    " WHERE thread = ? AND ns = ? ORDER BY checkpoint_id"
)

_TABLES = {
    "checkpoint_values": "ns, channel, checkpoint_id, thin, data",
    "checkpoint_writes": "ns, checkpoint_id, task, path, data",
    "checkpoints": "ns, checkpoint_id, parent, run_id, data",
}


def needed_by(connection: Connection, rows: Rows, at: Address, row: Row) -> set[str]:
    """Ids that a checkpoint needs: its deltas' ancestors and the holders of its values."""
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


def keys_of_runs(connection: Connection, run_ids: set[str]) -> list[str]:
    """Keys of the threads that have checkpoints of these runs."""
    keys: set[str] = set()
    for run_id in run_ids:
        rows = connection.execute(
            "SELECT DISTINCT k.thread_key FROM checkpoints c"
            " JOIN thread_keys k ON k.id = c.thread WHERE c.run_id = ?",
            (run_id,),
        ).fetchall()
        keys.update(row[0] for row in rows)
    return sorted(keys)


def drop_work(
    rows: Rows, thread_key: str, doomed: Callable[[list[Row]], set[str]]
) -> Callable[[Batch], None]:
    """The operation that removes checkpoints of one thread.

    Args:
        rows: how to read them.
        thread_key: the thread.
        doomed: given the rows of a namespace, oldest first, the ids to remove; what the others
            need stays.
    """

    def work(batch: Batch) -> None:
        connection, thread = batch.connection, batch.thread(thread_key).id
        spaces = connection.execute(
            "SELECT DISTINCT ns FROM checkpoints WHERE thread = ?", (thread,)
        ).fetchall()
        for (ns,) in spaces:
            found = [rows.row(row) for row in connection.execute(ALL_ROWS, (thread, ns)).fetchall()]
            gone = doomed(found)
            at = Address(thread_key, ns)
            for row in found:
                if row.checkpoint_id not in gone:
                    gone = gone - needed_by(connection, rows, at, row)
            delete_rows_of(connection, thread, ns, gone)

    return work


def delete_rows_of(connection: Connection, thread: int, ns: str, ids: Iterable[str]) -> None:
    """Remove checkpoints with their values and writes."""
    keys = [(thread, ns, pack_id(id)) for id in ids]
    for table in _TABLES if keys else ():
        connection.executemany(
            f"DELETE FROM {table} WHERE thread = ? AND ns = ? AND checkpoint_id = ?",  # noqa: S608  # names above
            keys,
        )


def copy_work(source_key: str, target_key: str) -> Callable[[Batch], None]:
    """The operation that copies a thread's checkpoints and blob references to another key."""

    def work(batch: Batch) -> None:
        connection = batch.connection
        source, target = batch.thread(source_key).id, batch.thread(target_key).id
        for table, columns in _TABLES.items():
            connection.execute(
                f"INSERT INTO {table} (thread, {columns})"  # noqa: S608  # names below
                f" SELECT ?, {columns} FROM {table} WHERE thread = ?",
                (target, source),
            )
        connection.execute(
            "INSERT INTO blob_refs (thread, blob)"
            " SELECT ?, blob FROM blob_refs WHERE thread = ?"
            " ON CONFLICT (thread, blob) DO NOTHING",
            (target, source),
        )

    return work
