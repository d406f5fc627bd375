"""What has outlived its time, in SQL."""

from __future__ import annotations

from deerflow.errors import ThreadGoneError
from deerflow.storage.checkpoints.untouched import Untouched
from deerflow.storage.protocol import ThreadRow
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.driver import Connection
from deerflow.storage.sql.reader import Readers
from deerflow.storage.sql.thread_rows import SELECT_THREAD, thread_row
from deerflow.storage.sql.threads import remove_thread
from deerflow.storage.sql.writer import Writer
from deerflow.storage.states import PINNED

_KEPT = (
    "SELECT 1 FROM runs r WHERE r.thread = t.id AND r.ended_at IS NULL",
    "SELECT 1 FROM run_events e WHERE e.thread = t.id AND e.seq = k.last_seq AND e.created_at >= ?",
    "SELECT 1 FROM approvals a WHERE a.thread = t.id AND a.status = 'pending'",
    "SELECT 1 FROM deliveries d WHERE d.thread = t.id AND d.status = 'pending'",
    "SELECT 1 FROM schedules s WHERE s.user_id = t.user_id AND s.thread_id = t.thread_id"
    " AND s.status = 'active'",
    "SELECT 1 FROM schedule_runs o JOIN schedules s ON s.id = o.schedule"
    " WHERE o.note = '' AND o.thread_id = t.thread_id AND s.user_id = t.user_id",
)
"""Each of these keeps a thread."""
_EXPIRED = f"{SELECT_THREAD} WHERE t.updated_at < ? AND t.metadata NOT LIKE ?" + "".join(
    f" AND NOT EXISTS ({kept})" for kept in _KEPT
)
_PINNED = f'%"{PINNED}":true%'
"""Metadata as it is stored, without spaces; one that is like it further down is kept as well."""
_OVER = (
    "SELECT DISTINCT c.thread, c.run_id FROM {table} c JOIN runs r ON r.run_id = c.run_id"
    " WHERE r.ended_at < ? AND r.status <> 'success' AND EXISTS (SELECT 1 FROM runs n"
    " WHERE n.thread = r.thread AND n.id > r.id AND n.ended_at < ? AND n.status = 'success')"
)
"""These tables hold little: rows of a run that succeeds go with its end."""
_TABLES = ("tool_calls", "model_calls", "run_deltas")


class SqlExpiry:
    """Expiry on the writer's queue.

    Args:
        untouched: told of threads that are removed.
    """

    def __init__(self, writer: Writer, readers: Readers, untouched: Untouched) -> None:
        self._writer = writer
        self._readers = readers
        self._untouched = untouched

    async def threads(self, before: float, *, limit: int = 100) -> list[ThreadRow]:
        """See Expiry."""
        sql = f"{_EXPIRED} ORDER BY t.updated_at, t.id LIMIT ?"

        def query(connection: Connection) -> list[ThreadRow]:
            rows = connection.execute(sql, (before, _PINNED, before, limit)).fetchall()
            return [thread_row(row) for row in rows]

        return await self._readers.read(query, scope="")

    async def remove(self, thread_key: str, before: float) -> bool:
        """See Expiry."""
        sql = f"{_EXPIRED} AND k.thread_key = ?"

        def work(batch: Batch) -> bool:
            try:
                batch.thread(thread_key)  # from here on nobody else changes it
            except ThreadGoneError:
                return False
            values = (before, _PINNED, before, thread_key)
            if batch.connection.execute(sql, values).fetchone() is None:
                return False
            remove_thread(batch, thread_key)
            return True

        removed = await self._writer.submit(work)
        if removed:
            self._untouched.discard(thread_key)
        return removed

    async def forget(self, before: float) -> int:
        """See Expiry."""

        def query(connection: Connection) -> dict[str, list[tuple[int, str]]]:
            found = {table: _OVER.format(table=table) for table in _TABLES}
            return {
                table: connection.execute(sql, (before, before)).fetchall()
                for table, sql in found.items()
            }

        over = await self._readers.read(query, scope="")

        def work(batch: Batch) -> int:
            count = 0
            for table, rows in over.items():
                sql = f"DELETE FROM {table} WHERE thread = ? AND run_id = ?"  # noqa: S608
                count += sum(batch.connection.execute(sql, row).rowcount for row in rows)
            return count

        return await self._writer.submit(work) if any(over.values()) else 0
