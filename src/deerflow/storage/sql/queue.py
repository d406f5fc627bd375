"""The queue of runs in SQL: what clients and workers ask of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from deerflow.errors import ConflictError
from deerflow.storage.owner import is_alive, is_gone
from deerflow.storage.protocol import Cancel, NewRun, RunRow, Submitted, ThreadRow
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.claims import claimed
from deerflow.storage.sql.driver import Connection
from deerflow.storage.sql.queueing import (
    READY,
    ask_to_stop,
    claim_run,
    give_back,
    key_of,
    put_back,
    remove_run,
    submit_work,
)
from deerflow.storage.sql.reader import Readers
from deerflow.storage.sql.runs import ONE_RUN, RUN_COLUMNS, SELECT_RUN, end_work, one_run, run_row
from deerflow.storage.sql.thread_rows import THREAD_COLUMNS, thread_row
from deerflow.storage.sql.writer import Writer
from deerflow.storage.states import ABANDONED, ended_event

_SINCE = (
    " AND r.created_at <= ? AND (r.not_before IS NULL OR r.not_before <= ?)"
    " AND (r.attempt = 0 OR t.updated_at <= ?)"
    " AND NOT EXISTS (SELECT 1 FROM runs e WHERE e.thread = r.thread AND e.ended_at > ?)"
)
_READY = f"{SELECT_RUN} JOIN threads t ON t.id = r.thread WHERE {READY}"
_IN_ORDER = " ORDER BY r.priority DESC, r.id LIMIT ?"
_BLOCKING = (
    "SELECT r.run_id, r.owner FROM runs r WHERE r.status = 'running' AND r.owner NOT LIKE 'w-%'"
    " AND EXISTS (SELECT 1 FROM runs p WHERE p.thread = r.thread AND p.status = 'pending')"
)
_OF_USER = (
    f"SELECT {THREAD_COLUMNS}, {RUN_COLUMNS} FROM threads t JOIN thread_keys k ON k.id = t.id"  # noqa: S608
    " JOIN runs r ON r.thread = t.id WHERE t.user_id = ?"
)
_TO_STOP = "SELECT run_id FROM runs WHERE status = 'running' AND owner = ? AND cancel <> ''"
_TO_TAKE_BACK = (
    f"{SELECT_RUN} WHERE r.cancel = 'rollback' AND r.status = 'cancelled' AND r.ended_at <= ?"
    " ORDER BY r.id LIMIT ?"
)
_DEPTH = (
    "SELECT status, count(*) FROM runs WHERE status IN ('pending', 'running')"
    " AND ended_at IS NULL GROUP BY status"
)


class SqlRunQueue:
    """RunQueue on the writer's queue."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def submit(self, thread: ThreadRow, run: NewRun, *, new: bool) -> Submitted | None:
        """See RunQueue."""
        work = submit_work(thread, run, new)
        return await self._writer.submit(work, scope=thread.thread_key, fenced=False)

    async def claim(self, run_id: str, worker_id: str) -> RunRow | None:
        """See RunQueue."""
        key = await self._key(run_id)
        found = await claimed(
            self._writer,
            lambda batch: claim_run(batch, run_id, worker_id),
            lambda batch, runs: give_back(batch, runs[0]),
            scope=key,
        )
        if not found:
            return None
        self._writer.fences.claimed(run_id, key)
        return found[0]

    async def ready(self, *, limit: int = 100, pending_for: float = 0.0) -> list[RunRow]:
        """See RunQueue."""
        await self._free_threads()
        now = time.time()
        sql, values = _READY, [now]
        if pending_for > 0:
            sql, values = sql + _SINCE, [now, *[now - pending_for] * 4]

        def query(connection: Connection) -> list[RunRow]:
            rows = connection.execute(sql + _IN_ORDER, (*values, limit)).fetchall()
            return [run_row(row) for row in rows]

        return await self._readers.read(query, scope="")

    async def _free_threads(self) -> None:
        """Close runs of dead processes that others wait for; workers' are taken over instead."""
        local = self._writer.dialect.local
        rows = await self._readers.read(lambda c: c.execute(_BLOCKING).fetchall(), scope="")
        for run_id, owner in rows:
            if (not is_alive(owner)) if local else is_gone(owner):
                event = ended_event("error", ABANDONED)
                work = end_work(run_id, "error", (None, ABANDONED, None), event)
                await self._writer.submit(work)

    async def next_in(self, thread_key: str) -> RunRow | None:
        """See RunQueue."""
        sql, values = f"{_READY} AND k.thread_key = ?", (time.time(), thread_key)

        def query(connection: Connection) -> RunRow | None:
            row = connection.execute(f"{sql} ORDER BY r.id LIMIT 1", values).fetchone()
            return None if row is None else run_row(row)

        return await self._readers.read(query, scope="")

    async def ask_to_stop(self, run_id: str, action: Cancel) -> RunRow | None:
        """See RunQueue."""
        return await self._on_run(run_id, lambda batch, run: ask_to_stop(batch, run, action))

    async def to_stop(self, worker_id: str) -> list[str]:
        """See RunQueue."""
        rows = await self._readers.read(
            lambda c: c.execute(_TO_STOP, (worker_id,)).fetchall(), scope=""
        )
        return [run_id for (run_id,) in rows]

    async def to_take_back(self, *, ended_for: float = 0.0, limit: int = 100) -> list[RunRow]:
        """See RunQueue."""
        values = (time.time() - ended_for, limit)
        rows = await self._readers.read(
            lambda c: c.execute(_TO_TAKE_BACK, values).fetchall(), scope=""
        )
        return [run_row(row) for row in rows]

    async def put_back(self, run_id: str) -> RunRow | None:
        """See RunQueue."""
        return await self._on_run(run_id, put_back)

    async def remove(self, run_id: str) -> None:
        """See RunQueue."""

        def removed(batch: Batch, run: RunRow) -> None:
            if run.ended_at is None:
                raise ConflictError("The run has not ended.", cure="Stop it first.")
            remove_run(batch, run)

        await self._on_run(run_id, removed)

    async def _on_run(
        self, run_id: str, act: Callable[[Batch, RunRow], RunRow | None]
    ) -> RunRow | None:
        """Change a run, alone with its thread; None when it is unknown."""

        def work(batch: Batch) -> RunRow | None:
            key = key_of(batch.connection, run_id)
            if key is None:
                return None
            batch.thread(key)
            run = one_run(batch.connection, ONE_RUN, run_id)
            return None if run is None else act(batch, run)

        key = await self._key(run_id)
        return await self._writer.submit(work, scope=key, fenced=False) if key else None

    async def _key(self, run_id: str) -> str:
        """The run's thread, "" when it is unknown: writes of a thread wait only for one another."""
        return await self._readers.read(lambda c: key_of(c, run_id)) or ""

    async def of_user(
        self,
        user_id: str,
        *,
        limit: int = 50,
        before: float | None = None,
        status: str | None = None,
    ) -> list[tuple[ThreadRow, RunRow]]:
        """See RunQueue."""
        sql, values = _OF_USER, list[Any]([user_id])
        for condition, value in (("r.created_at < ?", before), ("r.status = ?", status)):
            if value is not None:
                sql += f" AND {condition}"
                values.append(value)
        sql += " ORDER BY r.created_at DESC, r.id DESC LIMIT ?"

        def query(connection: Connection) -> list[tuple[ThreadRow, RunRow]]:
            rows = connection.execute(sql, (*values, limit)).fetchall()
            return [(thread_row(row[:9]), run_row(row[9:])) for row in rows]

        return await self._readers.read(query, scope="")

    async def depth(self) -> dict[str, int]:
        """See RunQueue."""
        return await self._readers.read(lambda c: dict(c.execute(_DEPTH).fetchall()), scope="")
