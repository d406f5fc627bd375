"""What has outlived its time, in memory."""

from __future__ import annotations

from deerflow.storage.inmemory_runs import open_runs
from deerflow.storage.inmemory_schedules import MemorySchedules
from deerflow.storage.inmemory_tables import Tables
from deerflow.storage.inmemory_threads import MemoryThreads
from deerflow.storage.protocol import RunRow, ThreadRow
from deerflow.storage.states import PINNED


class MemoryExpiry:
    """Expiry in memory."""

    def __init__(self, tables: Tables, threads: MemoryThreads, schedules: MemorySchedules) -> None:
        self._tables = tables
        self._threads = threads
        self._schedules = schedules

    async def threads(self, before: float, *, limit: int = 100) -> list[ThreadRow]:
        """See Expiry."""
        found = [row for row in self._tables.threads.values() if self._is_over(row, before)]
        return sorted(found, key=lambda row: row.updated_at)[:limit]

    async def remove(self, thread_key: str, before: float) -> bool:
        """See Expiry."""
        row = self._tables.threads.get(thread_key)
        if row is None or not self._is_over(row, before):
            return False
        return await self._threads.delete(row.user_id, row.thread_id) is not None

    async def forget(self, before: float) -> int:
        """See Expiry."""
        tables = self._tables
        over = {run.run_id for run in tables.runs.values() if self._is_passed(run, before)}
        count = len(tables.tools) + len(tables.replies)
        tables.tools = {k: v for k, v in tables.tools.items() if k.run_id not in over}
        tables.replies = {k: v for k, v in tables.replies.items() if k.run_id not in over}
        count -= len(tables.tools) + len(tables.replies)
        for message in [message for message in tables.deltas if message[0] in over]:
            count += len(tables.deltas.pop(message))
            del tables.delta_keys[message]
        return count

    def _is_over(self, row: ThreadRow, before: float) -> bool:
        tables, key = self._tables, row.thread_key
        log = tables.events.get(key, [])
        return not (
            row.updated_at >= before
            or row.metadata.get(PINNED) is True
            or (log and log[-1].created_at >= before)
            or any(open_runs(tables, key))
            or any(a.thread_key == key and a.status == "pending" for a in tables.approvals.values())
            or any(
                (d.row.thread_key, d.row.status) == (key, "pending")
                for d in tables.deliveries.values()
            )
            or self._schedules.needs(row.user_id, row.thread_id)
        )

    def _is_passed(self, run: RunRow, before: float) -> bool:
        if run.ended_at is None or run.ended_at >= before or run.status == "success":
            return False
        runs = [r for r in self._tables.runs.values() if r.thread_key == run.thread_key]
        return any(
            r.status == "success" and r.ended_at is not None and r.ended_at < before
            for r in runs[runs.index(run) + 1 :]
        )
