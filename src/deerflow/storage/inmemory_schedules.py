"""Schedules in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from deerflow.errors import ConflictError
from deerflow.storage.encoding import clean_text, copied
from deerflow.storage.inmemory_tables import Tables
from deerflow.storage.scheduling import OCCURRENCES_KEPT, ScheduledRun, ScheduleRow

Entered = list[tuple[ScheduleRow, ScheduledRun]]
"""Inside the class `list` is the method."""


class MemorySchedules:
    """Schedules in memory."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._rows: dict[str, ScheduleRow] = {}
        self._runs: dict[str, dict[float, ScheduledRun]] = {}

    async def put(self, row: ScheduleRow) -> None:
        """See Schedules."""
        found = self._rows.get(row.schedule_id)
        if found is not None and found.user_id != row.user_id:
            raise ConflictError("There is a schedule with this id already.")
        self._rows[row.schedule_id] = replace(row, data=copied(row.data))

    async def get(self, user_id: str, schedule_id: str) -> ScheduleRow | None:
        """See Schedules."""
        row = self._rows.get(schedule_id)
        return row if row is not None and row.user_id == user_id else None

    async def list(
        self, user_id: str, *, thread_id: str | None = None, limit: int = 100, offset: int = 0
    ) -> list[ScheduleRow]:
        """See Schedules."""
        found = [
            row
            for row in self._rows.values()
            if row.user_id == user_id and thread_id in (None, row.thread_id)
        ]
        found.sort(key=lambda row: (row.created_at, row.schedule_id), reverse=True)
        return found[offset : offset + limit]

    async def delete(self, user_id: str, schedule_id: str) -> bool:
        """See Schedules."""
        if await self.get(user_id, schedule_id) is None:
            return False
        del self._rows[schedule_id]
        self._runs.pop(schedule_id, None)
        return True

    def needs(self, user_id: str, thread_id: str) -> bool:
        """Whether an active one is bound to a thread, or is about to start in it."""
        own = [row for row in self._rows.values() if row.user_id == user_id]
        return any(
            (row.thread_id == thread_id and row.status == "active")
            or any(
                run.thread_id == thread_id and not run.note
                for run in self._runs.get(row.schedule_id, {}).values()
            )
            for row in own
        )

    async def due(self, now: float, *, limit: int = 20) -> list[ScheduleRow]:
        """See Schedules."""
        found = [
            (row.next_at, row.schedule_id, row)
            for row in self._rows.values()
            if row.status == "active" and row.next_at is not None and row.next_at <= now
        ]
        return [row for _, _, row in sorted(found, key=lambda entry: entry[:2])[:limit]]

    async def next_due(self) -> float | None:
        """See Schedules."""
        times = [
            row.next_at
            for row in self._rows.values()
            if row.status == "active" and row.next_at is not None
        ]
        return min(times, default=None)

    async def advance(
        self,
        row: ScheduleRow,
        runs: Sequence[ScheduledRun],
        *,
        next_at: float | None,
        status: Literal["active", "paused", "done"],
    ) -> bool:
        """See Schedules."""
        found = self._rows.get(row.schedule_id)
        known = None if found is None else (found.user_id, found.status, found.next_at)
        if found is None or known != (row.user_id, row.status, row.next_at):
            return False
        self._rows[row.schedule_id] = replace(found, next_at=next_at, status=status)
        entered = self._runs.setdefault(row.schedule_id, {})
        for run in runs:
            entered.setdefault(run.occurrence, replace(run, note=clean_text(run.note)))
        for occurrence in sorted(entered, reverse=True)[OCCURRENCES_KEPT:]:
            if entered[occurrence].note:
                del entered[occurrence]
        return True

    async def settle(self, schedule_id: str, occurrence: float, note: str) -> None:
        """See Schedules."""
        entered = self._runs.get(schedule_id, {})
        if occurrence in entered:
            entered[occurrence] = replace(entered[occurrence], note=clean_text(note))

    async def unstarted(self, *, limit: int = 20) -> Entered:
        """See Schedules."""
        return await self.noted("", limit=limit)

    async def waiting(self, schedule_id: str) -> int:
        """See Schedules."""
        entered, runs = self._runs.get(schedule_id, {}).values(), self._tables.runs
        return sum(
            not run.note or (run.run_id in runs and runs[run.run_id].ended_at is None)
            for run in entered
        )

    async def noted(self, note: str, *, limit: int) -> Entered:
        """See Schedules."""
        found = [
            (self._rows[schedule_id], run)
            for schedule_id, entered in self._runs.items()
            for run in entered.values()
            if run.note == note
        ]
        found.sort(key=lambda pair: (pair[1].created_at, pair[1].occurrence))
        return found[:limit]

    async def unfinished(self) -> int:
        """See Schedules."""
        runs = [run.run_id for entered in self._runs.values() for run in entered.values()]
        rows = [self._tables.runs[run_id] for run_id in runs if run_id in self._tables.runs]
        return len({row.thread_key for row in rows if row.ended_at is None})

    async def runs(self, schedule_id: str, *, limit: int = 50) -> list[ScheduledRun]:
        """See Schedules."""
        entered = self._runs.get(schedule_id, {})
        return [entered[occurrence] for occurrence in sorted(entered, reverse=True)[:limit]]
