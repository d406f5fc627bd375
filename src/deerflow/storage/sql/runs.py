"""Rows of runs: how they are read, started and ended inside a transaction."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from deerflow.errors import ConflictError, NotFoundError, ThreadGoneError
from deerflow.storage.encoding import dump_json, load_json, pack, unpack
from deerflow.storage.owner import WORKER
from deerflow.storage.protocol import RunRow
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.claims import is_living
from deerflow.storage.sql.deliveries import release_deliveries
from deerflow.storage.sql.driver import Connection
from deerflow.storage.sql.events import insert_event
from deerflow.storage.sql.journal import forget_run
from deerflow.storage.states import ABANDONED, ACTIVE, QUEUED, THREAD_STATUS

RUN_COLUMNS = (
    "r.run_id, k.thread_key, r.status, r.created_at, r.started_at, r.ended_at,"
    " r.input, r.config, r.outcome, r.error, r.usage, r.metadata, r.owner, r.not_before, r.cancel,"
    " r.attempt, r.priority"
)
SELECT_RUN = f"SELECT {RUN_COLUMNS} FROM runs r JOIN thread_keys k ON k.id = r.thread"  # noqa: S608
FIRST_OPEN = f"{SELECT_RUN} WHERE k.thread_key = ? AND r.ended_at IS NULL ORDER BY r.id LIMIT 1"
_KEY_OF_RUN = (
    "SELECT k.thread_key FROM runs r JOIN thread_keys k ON k.id = r.thread WHERE r.run_id = ?"
)
_HEAD = (
    "SELECT status, not_before FROM runs WHERE thread = ? AND ended_at IS NULL ORDER BY id LIMIT 1"
)
ONE_RUN = f"{SELECT_RUN} WHERE r.run_id = ?"
_INSERT = (
    "INSERT INTO runs (run_id, thread, status, owner, created_at, started_at, input, config)"
    " VALUES (?, ?, 'running', ?, ?, ?, ?, ?)"
)
_END = (
    "UPDATE runs SET status = ?, ended_at = ?, outcome = ?, error = ?, usage = ?"
    " WHERE run_id = ? AND ended_at IS NULL RETURNING thread"
)


def packed(value: Any) -> bytes | None:
    """Stored form of a JSON value; None stays None."""
    return None if value is None else pack(dump_json(value))


def _unpacked(data: bytes | None) -> Any:
    return None if data is None else load_json(unpack(data))


def run_row(row: tuple[Any, ...]) -> RunRow:
    """A row of SELECT_RUN (its columns are RUN_COLUMNS)."""
    input, config, outcome, error, usage, metadata = map(_unpacked, row[6:12])
    owner, not_before, cancel, attempt, priority = row[12:]
    return RunRow(
        *row[:6],
        input=input,
        config=config,
        outcome=outcome,
        error=error,
        usage=usage,
        owner=owner,
        metadata=metadata or {},
        not_before=not_before,
        cancel=cancel,
        attempt=attempt,
        priority=priority,
    )


def one_run(connection: Connection, sql: str, value: str) -> RunRow | None:
    """The only row of a query for runs."""
    row = connection.execute(sql, (value,)).fetchone()
    return None if row is None else run_row(row)


def start_work(
    thread_key: str,
    run_id: str,
    owner: str,
    documents: tuple[dict[str, Any], dict[str, Any]],
    event: tuple[str, dict[str, Any]] | None,
) -> Callable[[Batch], RunRow]:
    """The operation that starts a run; `documents` = input and config."""
    texts = [packed(document) for document in documents]
    first = None if event is None else (event[0], dump_json(event[1]))

    def work(batch: Batch) -> RunRow:
        connection, ref, now = batch.connection, batch.thread(thread_key), time.time()
        found = connection.execute("SELECT 1 FROM threads WHERE id = ?", (ref.id,)).fetchone()
        if found is None:
            raise NotFoundError("There is no such thread.")
        if connection.execute("SELECT 1 FROM runs WHERE run_id = ?", (run_id,)).fetchone():
            raise ConflictError("A run with this id exists already.")
        _bury(batch, ref.id, now)
        connection.execute(_INSERT, (run_id, ref.id, owner, now, now, *texts))
        connection.execute(
            "UPDATE threads SET status = 'busy', updated_at = ? WHERE id = ?", (now, ref.id)
        )
        if first is not None:
            insert_event(batch, thread_key, run_id, *first)
        return RunRow(run_id, thread_key, "running", now, now, None, *documents, owner=owner)

    return work


def _bury(batch: Batch, thread: int, now: float) -> None:
    """Close runs that dead processes left open; ConflictError when one is queued or executed."""
    rows = batch.connection.execute(
        "SELECT id, owner, status FROM runs WHERE thread = ? AND ended_at IS NULL", (thread,)
    ).fetchall()
    for id, owner, status in rows:
        if status == "pending":
            raise ConflictError(QUEUED, cure="Wait for its end, or stop it.")
        if is_living(batch, owner):
            raise ConflictError(ACTIVE)
        batch.connection.execute(
            "UPDATE runs SET status = 'error', ended_at = ?, error = ? WHERE id = ?",
            (now, packed(ABANDONED), id),
        )
        if owner.startswith(WORKER):
            remove_worker(batch, owner)


def remove_worker(batch: Batch, worker_id: str) -> list[RunRow]:
    """Take a worker's row and give its runs back to the queue: its late writes are refused."""
    connection = batch.connection
    connection.execute("DELETE FROM workers WHERE worker_id = ?", (worker_id,))
    batch.removed(worker_id)
    owned = f"{SELECT_RUN} WHERE r.owner = ? AND r.status = 'running' ORDER BY r.id"
    runs = [run_row(row) for row in connection.execute(owned, (worker_id,)).fetchall()]
    connection.execute(
        "UPDATE runs SET status = 'pending', owner = '' WHERE owner = ? AND status = 'running'",
        (worker_id,),
    )
    return [replace(run, status="pending", owner="") for run in runs]


def reopen_work(thread_key: str, run_id: str, owner: str) -> Callable[[Batch], RunRow]:
    """The operation that takes over a run that did not end well."""

    def work(batch: Batch) -> RunRow:
        connection, ref, now = batch.connection, batch.thread(thread_key), time.time()
        found = one_run(connection, ONE_RUN, run_id)
        if found is None or found.thread_key != thread_key or found.status == "success":
            raise NotFoundError("There is no such run to go on with.")
        _bury(batch, ref.id, now)
        connection.execute(
            "UPDATE runs SET status = 'running', owner = ?, ended_at = NULL, outcome = NULL,"
            " error = NULL WHERE run_id = ?",
            (owner, run_id),
        )
        connection.execute(
            "UPDATE threads SET status = 'busy', updated_at = ? WHERE id = ?", (now, ref.id)
        )
        return replace(
            found, status="running", owner=owner, ended_at=None, outcome=None, error=None
        )

    return work


def end_work(
    run_id: str,
    status: str,
    documents: tuple[Any, Any, Any],
    event: tuple[str, dict[str, Any]] | None,
) -> Callable[[Batch], None]:
    """The operation that ends a run; `documents` = outcome, error, usage. The first end counts."""
    last = None if event is None else (event[0], dump_json(event[1]))
    texts = [packed(document) for document in documents]

    def work(batch: Batch) -> None:
        connection, now = batch.connection, time.time()
        key = connection.execute(_KEY_OF_RUN, (run_id,)).fetchone()
        if key is None:
            raise ThreadGoneError("The run's thread was deleted.")
        ref = batch.thread(key[0])
        if not connection.execute(_END, (status, now, *texts, run_id)).fetchall():
            return
        head = connection.execute(_HEAD, (ref.id,)).fetchone()
        goes_on = head is not None and (head[0] == "running" or (head[1] or 0.0) <= now)
        connection.execute(
            "UPDATE threads SET status = ?, updated_at = ? WHERE id = ?",
            ("busy" if goes_on else THREAD_STATUS[status], now, ref.id),
        )
        release_deliveries(connection, run_id, now)
        if last is not None:
            insert_event(batch, key[0], run_id, *last)
        if status == "success":
            forget_run(connection, run_id, ref.id)

    return work
