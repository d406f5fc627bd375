"""Workers and webhooks in memory."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Literal

from deerflow.storage.encoding import copied
from deerflow.storage.inmemory_runs import remove_worker
from deerflow.storage.inmemory_tables import Sent, Tables
from deerflow.storage.owner import is_gone
from deerflow.storage.protocol import Delivery, RunRow, WorkerRow


class MemoryWorkers:
    """Workers in memory."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def register(self, worker_id: str, process: str, *, seconds: float) -> WorkerRow:
        """See Workers."""
        now = time.time()
        row = self._tables.workers[worker_id] = WorkerRow(worker_id, process, now, now + seconds)
        return row

    async def beat(self, worker_id: str, *, seconds: float) -> bool:
        """See Workers."""
        row = self._tables.workers.get(worker_id)
        if row is None:
            return False
        self._tables.workers[worker_id] = replace(row, expires_at=time.time() + seconds)
        return True

    async def dead(self) -> list[WorkerRow]:
        """See Workers."""
        return [row for row in self._tables.workers.values() if _is_dead(row)]

    async def living(self) -> list[WorkerRow]:
        """See Workers."""
        now = time.time()
        return [row for row in self._tables.workers.values() if row.expires_at > now]

    async def take_over(self, worker_id: str) -> list[RunRow] | None:
        """See Workers."""
        row = self._tables.workers.get(worker_id)
        return None if row is None or not _is_dead(row) else await self.retire(worker_id)

    async def retire(self, worker_id: str) -> list[RunRow]:
        """See Workers."""
        return remove_worker(self._tables, worker_id)

    def fence(self, thread_key: str, worker_id: str | None) -> None:
        """See Workers."""
        if worker_id is None:
            self._tables.fences.pop(thread_key, None)
        else:
            self._tables.fences[thread_key] = worker_id


def _is_dead(row: WorkerRow) -> bool:
    return row.expires_at <= time.time() or is_gone(row.process)


class MemoryDeliveries:
    """Deliveries in memory."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def add(self, row: Delivery) -> None:
        """See Deliveries."""
        tables = self._tables
        tables.refuse_retired(row.thread_key)
        run = tables.runs.get(row.run_id)
        if row.status == "waiting" and run is not None and run.ended_at is not None:
            row = replace(row, status="pending")
        tables.deliveries.setdefault(
            row.delivery_id, Sent(replace(row, payload=copied(row.payload)))
        )

    async def claim(self, *, now: float, seconds: float, limit: int = 10) -> list[Delivery]:
        """See Deliveries."""
        due = [
            sent
            for sent in self._tables.deliveries.values()
            if sent.row.status == "pending" and sent.row.due_at <= now >= sent.claimed_until
        ]
        due = sorted(due, key=lambda sent: sent.row.due_at)[:limit]
        for sent in due:
            sent.claimed_until = now + seconds
            sent.row = replace(sent.row, attempts=sent.row.attempts + 1)
        return [sent.row for sent in due]

    async def settle(
        self, delivery_id: str, status: Literal["pending", "done", "failed"], *, due_at: float = 0.0
    ) -> None:
        """See Deliveries."""
        sent = self._tables.deliveries.get(delivery_id)
        if sent is not None:
            sent.row, sent.claimed_until = replace(sent.row, status=status, due_at=due_at), 0.0

    async def of_run(self, run_id: str) -> list[Delivery]:
        """See Deliveries."""
        return [sent.row for sent in self._tables.deliveries.values() if sent.row.run_id == run_id]
