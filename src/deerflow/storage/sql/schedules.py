"""Schedules in SQL: an occurrence is entered by one process, whoever looks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from deerflow.errors import ConflictError
from deerflow.storage.encoding import column_text, dump_json, load_json, pack, unpack
from deerflow.storage.scheduling import OCCURRENCES_KEPT, ScheduledRun, ScheduleRow
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.driver import Connection
from deerflow.storage.sql.reader import Readers
from deerflow.storage.sql.writer import Writer

_ROW = (
    "s.schedule_id, s.user_id, s.thread_id, s.kind, s.status, s.next_at, s.created_at,"
    " s.updated_at, s.data"
)
_ROW_FIELDS = 9
_RUN = "s.schedule_id, o.occurrence, o.run_id, o.thread_id, o.created_at, o.note"
_SELECT = f"SELECT {_ROW} FROM schedules s"  # noqa: S608
_OWN = f"{_SELECT} WHERE s.user_id = ?"
_DUE = (
    f"{_SELECT} WHERE s.status = 'active' AND s.next_at <= ?"
    " ORDER BY s.next_at, s.schedule_id LIMIT ?"
)
_NEXT = "SELECT min(next_at) FROM schedules WHERE status = 'active'"
_PUT = (
    "INSERT INTO schedules (schedule_id, user_id, thread_id, kind, status, next_at, created_at,"
    " updated_at, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (schedule_id) DO UPDATE"
    " SET thread_id = excluded.thread_id, kind = excluded.kind, status = excluded.status,"
    " next_at = excluded.next_at, created_at = excluded.created_at,"
    " updated_at = excluded.updated_at, data = excluded.data"
    " WHERE schedules.user_id = excluded.user_id"
)
_ADVANCE = (
    "UPDATE schedules SET next_at = ?, status = ?"
    " WHERE schedule_id = ? AND user_id = ? AND status = ? AND {same} RETURNING id"
)
_ENTER = (
    "INSERT INTO schedule_runs (schedule, occurrence, run_id, thread_id, created_at, note)"
    " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (schedule, occurrence) DO NOTHING"
)
_PRUNE = (
    "DELETE FROM schedule_runs WHERE schedule = ? AND note <> '' AND occurrence <= ("
    " SELECT occurrence FROM schedule_runs WHERE schedule = ?"
    " ORDER BY occurrence DESC LIMIT 1 OFFSET ?)"
)
_SETTLE = (
    "UPDATE schedule_runs SET note = ? WHERE occurrence = ?"
    " AND schedule = (SELECT id FROM schedules WHERE schedule_id = ?)"
)
_ENTERED = "FROM schedule_runs o JOIN schedules s ON s.id = o.schedule"
_NOTED = (
    f"SELECT {_ROW}, {_RUN} {_ENTERED} WHERE o.note = ?"
    " ORDER BY o.created_at, o.occurrence, o.id LIMIT ?"
)
_UNFINISHED = (
    "SELECT count(DISTINCT r.thread) FROM runs r JOIN schedule_runs o ON o.run_id = r.run_id"
    " WHERE r.status IN ('pending', 'running') AND r.ended_at IS NULL"
)
_WAITING = (
    f"SELECT count(*) {_ENTERED} LEFT JOIN runs r ON r.run_id = o.run_id WHERE s.schedule_id = ?"
    " AND (o.note = '' OR (r.id IS NOT NULL AND r.ended_at IS NULL))"
)
_RUNS = f"SELECT {_RUN} {_ENTERED} WHERE s.schedule_id = ? ORDER BY o.occurrence DESC LIMIT ?"


Entered = list[tuple[ScheduleRow, ScheduledRun]]
"""Inside the class `list` is the method."""


def _row(found: tuple[Any, ...]) -> ScheduleRow:
    return ScheduleRow(*found[:8], data=load_json(unpack(found[8])))


class SqlSchedules:
    """Schedules on the writer's queue."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def put(self, row: ScheduleRow) -> None:
        """See Schedules."""
        names = (row.schedule_id, row.user_id, row.thread_id, row.kind, row.status)
        times = (row.next_at, row.created_at, row.updated_at)
        values = (*names, *times, pack(dump_json(row.data)))

        def work(batch: Batch) -> None:
            if batch.connection.execute(_PUT, values).rowcount == 0:
                raise ConflictError("There is a schedule with this id already.")

        await self._writer.submit(work)

    async def get(self, user_id: str, schedule_id: str) -> ScheduleRow | None:
        """See Schedules."""
        rows = await self._all(f"{_OWN} AND s.schedule_id = ?", user_id, schedule_id)
        return _row(rows[0]) if rows else None

    async def list(
        self, user_id: str, *, thread_id: str | None = None, limit: int = 100, offset: int = 0
    ) -> list[ScheduleRow]:
        """See Schedules."""
        sql, values = _OWN, list[Any]([user_id])
        if thread_id is not None:
            sql, values = f"{sql} AND s.thread_id = ?", [user_id, thread_id]
        sql = f"{sql} ORDER BY s.created_at DESC, s.schedule_id DESC LIMIT ? OFFSET ?"
        return [_row(row) for row in await self._all(sql, *values, limit, offset)]

    async def delete(self, user_id: str, schedule_id: str) -> bool:
        """See Schedules."""

        def work(batch: Batch) -> bool:
            found = batch.connection.execute(
                "DELETE FROM schedules WHERE user_id = ? AND schedule_id = ? RETURNING id",
                (user_id, schedule_id),
            ).fetchone()
            if found is None:
                return False
            batch.connection.execute("DELETE FROM schedule_runs WHERE schedule = ?", (found[0],))
            return True

        return await self._writer.submit(work)

    async def due(self, now: float, *, limit: int = 20) -> list[ScheduleRow]:
        """See Schedules."""
        return [_row(row) for row in await self._all(_DUE, now, limit)]

    async def next_due(self) -> float | None:
        """See Schedules."""
        return (await self._all(_NEXT))[0][0]

    async def advance(
        self,
        row: ScheduleRow,
        runs: Sequence[ScheduledRun],
        *,
        next_at: float | None,
        status: Literal["active", "paused", "done"],
    ) -> bool:
        """See Schedules."""
        values: list[Any] = [next_at, status, row.schedule_id, row.user_id, row.status]
        if row.next_at is None:
            sql = _ADVANCE.format(same="next_at IS NULL")
        else:
            sql = _ADVANCE.format(same="next_at = ?")
            values.append(row.next_at)
        entered = [
            (run.occurrence, run.run_id, run.thread_id, run.created_at, column_text(run.note))
            for run in runs
        ]

        def work(batch: Batch) -> bool:
            found = batch.connection.execute(sql, values).fetchone()
            if found is None:
                return False
            id = found[0]
            if entered:
                batch.connection.executemany(_ENTER, [(id, *fields) for fields in entered])
                batch.connection.execute(_PRUNE, (id, id, OCCURRENCES_KEPT))
            return True

        return await self._writer.submit(work)

    async def settle(self, schedule_id: str, occurrence: float, note: str) -> None:
        """See Schedules."""
        values = (column_text(note), occurrence, schedule_id)

        def work(batch: Batch) -> None:
            batch.connection.execute(_SETTLE, values)

        await self._writer.submit(work)

    async def unstarted(self, *, limit: int = 20) -> Entered:
        """See Schedules."""
        return await self.noted("", limit=limit)

    async def noted(self, note: str, *, limit: int) -> Entered:
        """See Schedules."""
        rows = await self._all(_NOTED, note, limit)
        return [(_row(row[:_ROW_FIELDS]), ScheduledRun(*row[_ROW_FIELDS:])) for row in rows]

    async def waiting(self, schedule_id: str) -> int:
        """See Schedules."""
        return (await self._all(_WAITING, schedule_id))[0][0]

    async def unfinished(self) -> int:
        """See Schedules."""
        return (await self._all(_UNFINISHED))[0][0]

    async def runs(self, schedule_id: str, *, limit: int = 50) -> list[ScheduledRun]:
        """See Schedules."""
        return [ScheduledRun(*row) for row in await self._all(_RUNS, schedule_id, limit)]

    async def _all(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        def query(connection: Connection) -> list[tuple[Any, ...]]:
            return connection.execute(sql, values).fetchall()

        return await self._readers.read(query)
