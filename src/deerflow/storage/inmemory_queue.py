"""The queue of runs in memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import takewhile
from uuid import uuid4

from deerflow.errors import ConflictError, ThreadGoneError
from deerflow.storage.encoding import copied
from deerflow.storage.inmemory_runs import open_runs
from deerflow.storage.inmemory_tables import Sent, Tables
from deerflow.storage.inmemory_threads import MemoryThreads
from deerflow.storage.owner import WORKER
from deerflow.storage.protocol import Cancel, NewRun, RunRow, Strategy, Submitted, ThreadRow
from deerflow.storage.states import ABANDONED, ACTIVE, QUEUED, ended_event, is_to_take_back


class MemoryRunQueue:
    """RunQueue in memory."""

    def __init__(self, tables: Tables, threads: MemoryThreads) -> None:
        self._tables = tables
        self._threads = threads

    async def submit(self, thread: ThreadRow, run: NewRun, *, new: bool) -> Submitted | None:
        """See RunQueue."""
        tables, key = self._tables, thread.thread_key
        name = (thread.user_id, run.idempotency_key or "")
        if run.idempotency_key is not None and name in tables.idempotency:
            twin = tables.runs[tables.idempotency[name]]
            return Submitted(twin, created=False, ready=self._is_ready(twin))
        if new and await self._threads.get(thread.user_id, thread.thread_id) is not None:
            return None
        if new and (key in tables.threads or key in tables.retired):
            raise ConflictError("A thread with this key existed before.")
        if not new and key not in tables.threads:
            raise ThreadGoneError("The thread was deleted.")
        if run.run_id in tables.runs:
            raise ConflictError("A run with this id exists already.")
        if new:
            self._threads.add(thread)
        cancelled = self._make_way(key, run.strategy)
        row = self._insert(key, run)
        if run.idempotency_key is not None:
            tables.idempotency[name] = run.run_id
        if run.event is not None:
            tables.append(key, run.run_id, *run.event)
        if run.delivery is not None:
            tables.deliveries.setdefault(run.delivery.delivery_id, Sent(run.delivery))
        return Submitted(row, True, self._is_ready(row), tuple(cancelled))

    def _insert(self, key: str, run: NewRun) -> RunRow:
        row = RunRow(
            run_id=run.run_id,
            thread_key=key,
            status="pending",
            created_at=time.time(),
            input=copied(run.input),
            config=copied(run.config),
            metadata=copied(run.metadata),
            not_before=run.not_before,
            priority=run.priority,
        )
        self._tables.runs[run.run_id] = row
        self._busy(key)
        return row

    def _make_way(self, key: str, strategy: Strategy) -> list[RunRow]:
        """Deal with a thread's unfinished runs; gives those that were asked to stop."""
        for run in open_runs(self._tables, key):
            if self._is_left(run):
                event = ended_event("error", ABANDONED)
                self._threads.close(run, "error", (None, ABANDONED, None), event)
        unfinished = list(open_runs(self._tables, key))
        if strategy == "reject" and unfinished:
            running = any(run.status == "running" for run in unfinished)
            raise ConflictError(ACTIVE if running else QUEUED, cure="Wait for its end, or stop it.")
        if strategy in ("reject", "enqueue"):
            return []
        return [self._stop(run, strategy) for run in unfinished]

    async def claim(self, run_id: str, worker_id: str) -> RunRow | None:
        """See RunQueue."""
        run = self._tables.runs.get(run_id)
        if run is None or not self._is_ready(run) or worker_id not in self._tables.workers:
            return None
        self._busy(run.thread_key)
        return self._set(
            run,
            status="running",
            owner=worker_id,
            attempt=run.attempt + 1,
            started_at=run.started_at or time.time(),
        )

    async def ready(self, *, limit: int = 100, pending_for: float = 0.0) -> list[RunRow]:
        """See RunQueue."""
        for run in list(self._tables.runs.values()):
            others = list(open_runs(self._tables, run.thread_key))
            if len(others) > 1 and run in others and self._is_left(run):
                event = ended_event("error", ABANDONED)
                self._threads.close(run, "error", (None, ABANDONED, None), event)
        since = time.time() - pending_for
        found = [
            run
            for run in self._tables.runs.values()
            if self._is_ready(run) and (pending_for <= 0 or self._ready_since(run) <= since)
        ]
        return sorted(found, key=lambda run: -run.priority)[:limit]

    def _ready_since(self, run: RunRow) -> float:
        key = run.thread_key
        ends = [r.ended_at or 0.0 for r in self._tables.runs.values() if r.thread_key == key]
        again = self._tables.threads[key].updated_at if run.attempt else 0.0
        return max(run.created_at, run.not_before or 0.0, again, *ends)

    async def next_in(self, thread_key: str) -> RunRow | None:
        """See RunQueue."""
        found = (run for run in open_runs(self._tables, thread_key) if self._is_ready(run))
        return next(found, None)

    async def ask_to_stop(self, run_id: str, action: Cancel) -> RunRow | None:
        """See RunQueue."""
        run = self._tables.runs.get(run_id)
        return None if run is None else self._stop(run, action)

    def _stop(self, run: RunRow, action: Cancel) -> RunRow:
        if run.ended_at is not None:
            return run
        wanted = "rollback" if "rollback" in (run.cancel, action) else action
        before, run = run, self._set(run, cancel=wanted)
        if run.status == "pending" or self._is_left(run):
            self._threads.close(run, "cancelled", event=ended_event("cancelled"))
        elif wanted != before.cancel:
            payload = {"action": wanted}
            self._tables.append(run.thread_key, run.run_id, "cancel_requested", payload)
        return self._tables.runs[run.run_id]

    async def put_back(self, run_id: str) -> RunRow | None:
        """See RunQueue."""
        run = self._tables.runs.get(run_id)
        if run is None or run.status == "pending":
            return run
        if run.ended_at is None:
            if not run.owner.startswith(WORKER) and self._tables.lives(run.owner):
                return None
            self._busy(run.thread_key)
            return self._set(run, status="pending", owner="")
        if run.status == "success" or any(open_runs(self._tables, run.thread_key)):
            return None
        self._busy(run.thread_key)
        self._repeat(run_id)
        return self._set(
            run,
            status="pending",
            owner="",
            ended_at=None,
            outcome=None,
            error=None,
            cancel="",
            not_before=None,
        )

    def _repeat(self, run_id: str) -> None:
        """The addresses of a run that goes on are called at its next end as well."""
        rows = [s.row for s in self._tables.deliveries.values() if s.row.run_id == run_id]
        for row in {(row.user_id, row.url): row for row in rows}.values():
            again = replace(row, delivery_id=uuid4().hex, status="waiting", attempts=0, due_at=0.0)
            self._tables.deliveries[again.delivery_id] = Sent(again)

    async def to_take_back(self, *, ended_for: float = 0.0, limit: int = 100) -> list[RunRow]:
        """See RunQueue."""
        until = time.time() - ended_for
        found = [run for run in self._tables.runs.values() if is_to_take_back(run)]
        return [run for run in found if run.ended_at is not None and run.ended_at <= until][:limit]

    async def remove(self, run_id: str) -> None:
        """See RunQueue."""
        tables, run = self._tables, self._tables.runs.get(run_id)
        if run is None:
            return
        if run.ended_at is None:
            raise ConflictError("The run has not ended.", cure="Stop it first.")
        key = run.thread_key
        tables.events[key] = [e for e in tables.events.get(key, []) if e.run_id != run_id]
        for message in [m for m in tables.deltas if m[0] == run_id]:
            del tables.deltas[message], tables.delta_keys[message]
        tables.tools = {k: v for k, v in tables.tools.items() if k.run_id != run_id}
        tables.replies = {k: v for k, v in tables.replies.items() if k.run_id != run_id}
        tables.feedback = {k: v for k, v in tables.feedback.items() if v.run_id != run_id}
        tables.idempotency = {k: v for k, v in tables.idempotency.items() if v != run_id}
        del tables.runs[run_id]

    async def of_user(
        self,
        user_id: str,
        *,
        limit: int = 50,
        before: float | None = None,
        status: str | None = None,
    ) -> list[tuple[ThreadRow, RunRow]]:
        """See RunQueue."""
        found = [
            (self._tables.threads[run.thread_key], run)
            for run in reversed(self._tables.runs.values())
            if self._tables.threads[run.thread_key].user_id == user_id
            and (before is None or run.created_at < before)
            and status in (None, run.status)
        ]
        return sorted(found, key=lambda pair: -pair[1].created_at)[:limit]

    async def to_stop(self, worker_id: str) -> list[str]:
        """See RunQueue."""
        return [
            run.run_id
            for run in self._tables.runs.values()
            if run.owner == worker_id and run.cancel and run.status == "running"
        ]

    async def depth(self) -> dict[str, int]:
        """See RunQueue."""
        found: dict[str, int] = {}
        for run in self._tables.runs.values():
            if run.ended_at is None:
                found[run.status] = found.get(run.status, 0) + 1
        return found

    def _is_left(self, run: RunRow) -> bool:
        """Whether a process died over the run; a dead worker's is taken over instead."""
        worker = run.owner.startswith(WORKER)
        return run.status == "running" and not worker and not self._tables.lives(run.owner)

    def _is_ready(self, run: RunRow) -> bool:
        first = next(iter(open_runs(self._tables, run.thread_key)), None)
        if any(is_to_take_back(r) for r in earlier(self._tables, run)):
            return False
        waits = run.not_before is not None and run.not_before > time.time()
        return run.status == "pending" and first is run and not waits

    def _set(self, run: RunRow, **changes: object) -> RunRow:
        changed = self._tables.runs[run.run_id] = replace(run, **changes)  # pyright: ignore[reportArgumentType]
        return changed

    def _busy(self, key: str) -> None:
        row = self._tables.threads[key]
        self._tables.threads[key] = replace(row, status="busy", updated_at=time.time())


def earlier(tables: Tables, run: RunRow) -> Iterator[RunRow]:
    """Runs of the same thread that were submitted before."""
    own = (found for found in tables.runs.values() if found.thread_key == run.thread_key)
    return takewhile(lambda found: found.run_id != run.run_id, own)
