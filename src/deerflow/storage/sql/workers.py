"""Leases of workers in SQL, by the clock of the database."""

from __future__ import annotations

from deerflow.storage.owner import is_gone
from deerflow.storage.protocol import RunRow, WorkerRow
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.driver import Connection
from deerflow.storage.sql.reader import Readers
from deerflow.storage.sql.runs import remove_worker
from deerflow.storage.sql.writer import Writer

_COLUMNS = "worker_id, process, started_at, expires_at"
_KNOWN = "SELECT process FROM workers WHERE worker_id = ?"


class SqlWorkers:
    """Workers on the writer's queue."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers
        now = writer.dialect.now
        self._register = (
            f"INSERT INTO workers ({_COLUMNS}) VALUES (?, ?, {now}, {now} + ?)"  # noqa: S608
            " ON CONFLICT (worker_id) DO UPDATE SET process = excluded.process,"
            " started_at = excluded.started_at, expires_at = excluded.expires_at"
            f" RETURNING {_COLUMNS}"
        )
        self._beat = f"UPDATE workers SET expires_at = {now} + ? WHERE worker_id = ?"  # noqa: S608
        self._all = f"SELECT {_COLUMNS}, {now} FROM workers ORDER BY started_at, worker_id"  # noqa: S608
        self._claim = (
            f"DELETE FROM workers WHERE worker_id = ? AND (expires_at <= {now} OR ? = 1)"  # noqa: S608
            " RETURNING 1"
        )

    async def register(self, worker_id: str, process: str, *, seconds: float) -> WorkerRow:
        """See Workers."""

        def work(batch: Batch) -> WorkerRow:
            row = batch.connection.execute(self._register, (worker_id, process, seconds))
            return WorkerRow(*row.fetchall()[0])

        return await self._writer.submit(work)

    async def beat(self, worker_id: str, *, seconds: float) -> bool:
        """See Workers."""

        def work(batch: Batch) -> bool:
            return batch.connection.execute(self._beat, (seconds, worker_id)).rowcount > 0

        return await self._writer.submit(work)

    async def dead(self) -> list[WorkerRow]:
        """See Workers."""
        return [row for row, over in await self._rows(look=True) if over]

    async def living(self) -> list[WorkerRow]:
        """See Workers."""
        return [row for row, over in await self._rows(look=False) if not over]

    async def take_over(self, worker_id: str) -> list[RunRow] | None:
        """See Workers."""

        def work(batch: Batch) -> list[RunRow] | None:
            row = batch.connection.execute(_KNOWN, (worker_id,)).fetchone()
            if row is None:
                return None
            values = (worker_id, int(is_gone(row[0])))
            if not batch.connection.execute(self._claim, values).fetchall():
                return None
            return remove_worker(batch, worker_id)

        return await self._writer.submit(work)

    async def retire(self, worker_id: str) -> list[RunRow]:
        """See Workers."""
        return await self._writer.submit(lambda batch: remove_worker(batch, worker_id))

    def fence(self, thread_key: str, worker_id: str | None) -> None:
        """See Workers."""
        self._writer.fences.bind(thread_key, worker_id)

    async def _rows(self, *, look: bool) -> list[tuple[WorkerRow, bool]]:
        """Every worker, and whether its lease has run out, or (`look`) its process is gone."""

        def query(connection: Connection) -> list[tuple[WorkerRow, bool]]:
            rows = connection.execute(self._all).fetchall()
            return [
                (WorkerRow(*row[:4]), row[3] <= row[4] or (look and is_gone(row[1])))
                for row in rows
            ]

        return await self._readers.read(query, scope="")
