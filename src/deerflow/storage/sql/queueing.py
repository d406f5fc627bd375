"""What changes the queue of runs, inside a transaction.

Every operation first asks the batch for the thread, so that two of one thread never overlap.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import sha256

from deerflow.errors import ConflictError, ThreadGoneError
from deerflow.storage.encoding import dump_json
from deerflow.storage.owner import WORKER
from deerflow.storage.protocol import Cancel, NewRun, RunRow, Strategy, Submitted, ThreadRow
from deerflow.storage.sql.batch import GONE, Batch
from deerflow.storage.sql.claims import is_living
from deerflow.storage.sql.deliveries import insert_delivery, repeat_deliveries
from deerflow.storage.sql.driver import Connection
from deerflow.storage.sql.events import insert_event
from deerflow.storage.sql.runs import ONE_RUN, SELECT_RUN, end_work, one_run, packed, run_row
from deerflow.storage.sql.thread_rows import insert_thread, one_thread
from deerflow.storage.states import ABANDONED, ACTIVE, QUEUED, ended_event

READY = (
    "r.status = 'pending' AND r.ended_at IS NULL AND (r.not_before IS NULL OR r.not_before <= ?)"
    " AND NOT EXISTS (SELECT 1 FROM runs b"
    " WHERE b.thread = r.thread AND b.id < r.id"
    " AND (b.ended_at IS NULL OR (b.status = 'cancelled' AND b.cancel = 'rollback')))"
)
"""Condition on `runs r`; its value is the time."""
_IS_READY = f"SELECT 1 FROM runs r WHERE r.run_id = ? AND {READY}"  # noqa: S608
_OPEN = f"{SELECT_RUN} WHERE k.thread_key = ? AND r.ended_at IS NULL ORDER BY r.id"
_BY_KEY = f"{SELECT_RUN} WHERE r.idempotency = ?"
_KEY_OF = "SELECT k.thread_key FROM runs r JOIN thread_keys k ON k.id = r.thread WHERE r.run_id = ?"
_INSERT = (
    "INSERT INTO runs (run_id, thread, status, owner, created_at, input, config, metadata,"
    " not_before, cancel, attempt, priority, idempotency)"
    " VALUES (?, ?, 'pending', '', ?, ?, ?, ?, ?, '', 0, ?, ?)"
)
_BUSY = (
    "UPDATE threads SET status = 'busy', updated_at = ?"
    " WHERE id = (SELECT id FROM thread_keys WHERE thread_key = ?)"
)
_CLAIM = (
    "UPDATE runs SET status = 'running', owner = ?, attempt = attempt + 1,"
    " started_at = coalesce(started_at, ?) WHERE run_id = ?"
)
_GIVE_BACK = (
    "UPDATE runs SET status = 'pending', owner = '', attempt = attempt - 1"
    " WHERE run_id = ? AND status = 'running' AND owner = ? AND attempt = ?"
)
_HAND_OVER = "UPDATE runs SET status = 'pending', owner = '' WHERE run_id = ?"
_REVIVE = (
    "UPDATE runs SET status = 'pending', owner = '', ended_at = NULL, outcome = NULL,"
    " error = NULL, cancel = '', not_before = NULL WHERE run_id = ?"
)
_OF_RUN = ("run_events", "run_deltas", "tool_calls", "model_calls", "feedback", "runs")


def key_of(connection: Connection, run_id: str) -> str | None:
    """The key of a run's thread."""
    row = connection.execute(_KEY_OF, (run_id,)).fetchone()
    return None if row is None else row[0]


def read_run(connection: Connection, run_id: str) -> RunRow:
    """A run that exists."""
    return run_row(connection.execute(ONE_RUN, (run_id,)).fetchall()[0])


def is_ready(connection: Connection, run_id: str) -> bool:
    """Whether a run is pending and may start now."""
    return connection.execute(_IS_READY, (run_id, time.time())).fetchone() is not None


def submit_work(thread: ThreadRow, run: NewRun, new: bool) -> Callable[[Batch], Submitted | None]:
    """The operation behind `RunQueue.submit`."""
    key, text = thread.thread_key, dump_json(thread.metadata).decode()
    texts = [packed(document) for document in (run.input, run.config, run.metadata)]
    first = None if run.event is None else (run.event[0], dump_json(run.event[1]))
    idempotency = None
    if run.idempotency_key is not None:
        whole = f"{thread.user_id}\x00{run.idempotency_key}"
        idempotency = sha256(whole.encode("utf-8", "replace")).hexdigest()

    def work(batch: Batch) -> Submitted | None:
        connection = batch.connection
        twin = None if idempotency is None else one_run(connection, _BY_KEY, idempotency)
        if twin is not None:
            return Submitted(twin, created=False, ready=is_ready(connection, twin.run_id))
        if new and one_thread(connection, thread.user_id, thread.thread_id) is not None:
            return None
        if new:
            insert_thread(connection, thread, text)
        ref = batch.thread(key)
        if connection.execute("SELECT 1 FROM threads WHERE id = ?", (ref.id,)).fetchone() is None:
            raise ThreadGoneError(GONE)
        if key_of(connection, run.run_id) is not None:
            raise ConflictError("A run with this id exists already.")
        cancelled, now = _make_way(batch, key, run.strategy), time.time()
        tail = (run.not_before, run.priority, idempotency)
        connection.execute(_INSERT, (run.run_id, ref.id, now, *texts, *tail))
        connection.execute(_BUSY, (now, key))
        if first is not None:
            insert_event(batch, key, run.run_id, *first)
        if run.delivery is not None:
            insert_delivery(connection, ref.id, run.delivery)
        row = read_run(connection, run.run_id)
        return Submitted(row, True, is_ready(connection, run.run_id), tuple(cancelled))

    return work


def _make_way(batch: Batch, key: str, strategy: Strategy) -> list[RunRow]:
    """Deal with a thread's unfinished runs; gives those that were asked to stop."""
    found = [run_row(row) for row in batch.connection.execute(_OPEN, (key,)).fetchall()]
    dead = [run for run in found if _is_left(batch, run)]
    for run in dead:
        event = ended_event("error", ABANDONED)
        end_work(run.run_id, "error", (None, ABANDONED, None), event)(batch)
    unfinished = [run for run in found if run not in dead]
    if strategy == "reject" and unfinished:
        running = any(run.status == "running" for run in unfinished)
        raise ConflictError(ACTIVE if running else QUEUED, cure="Wait for its end, or stop it.")
    if strategy in ("reject", "enqueue"):
        return []
    return [ask_to_stop(batch, run, strategy) for run in unfinished]


def _is_left(batch: Batch, run: RunRow) -> bool:
    """Whether a process died over the run; a dead worker's is taken over instead."""
    worker = run.owner.startswith(WORKER)
    return run.status == "running" and not worker and not is_living(batch, run.owner)


def ask_to_stop(batch: Batch, run: RunRow, action: Cancel) -> RunRow:
    """See `RunQueue.ask_to_stop`."""
    if run.ended_at is not None:
        return run
    wanted = "rollback" if "rollback" in (run.cancel, action) else action
    idle = run.status == "pending" or _is_left(batch, run)
    if wanted != run.cancel:
        batch.connection.execute(
            "UPDATE runs SET cancel = ? WHERE run_id = ?", (wanted, run.run_id)
        )
    if idle:
        work = end_work(run.run_id, "cancelled", (None, None, None), ended_event("cancelled"))
        work(batch)
    elif wanted != run.cancel:
        text = dump_json({"action": wanted})
        insert_event(batch, run.thread_key, run.run_id, "cancel_requested", text)
    return read_run(batch.connection, run.run_id)


def claim_run(batch: Batch, run_id: str, worker_id: str) -> list[RunRow]:
    """See `RunQueue.claim`; [] for None."""
    connection, now = batch.connection, time.time()
    key = key_of(connection, run_id)
    if key is None or not batch.holds(worker_id):
        return []
    batch.thread(key)
    if not is_ready(connection, run_id):
        return []
    connection.execute(_CLAIM, (worker_id, now, run_id))
    connection.execute(_BUSY, (now, key))
    return [read_run(connection, run_id)]


def give_back(batch: Batch, run: RunRow) -> None:
    """Undo a claim that nobody heard of."""
    batch.connection.execute(_GIVE_BACK, (run.run_id, run.owner, run.attempt))


def put_back(batch: Batch, run: RunRow) -> RunRow | None:
    """See `RunQueue.put_back`."""
    connection = batch.connection
    if run.status == "pending":
        return run
    if run.ended_at is None:
        if not run.owner.startswith(WORKER) and is_living(batch, run.owner):
            return None
        connection.execute(_HAND_OVER, (run.run_id,))
    else:
        taken = connection.execute(f"{_OPEN} LIMIT 1", (run.thread_key,)).fetchone()
        if run.status == "success" or taken is not None:
            return None
        connection.execute(_REVIVE, (run.run_id,))
        repeat_deliveries(connection, run.run_id)
    connection.execute(_BUSY, (time.time(), run.thread_key))
    return read_run(connection, run.run_id)


def remove_run(batch: Batch, run: RunRow) -> None:
    """Delete the rows of a run."""
    thread = batch.thread(run.thread_key).id
    for table in _OF_RUN:
        batch.connection.execute(
            f"DELETE FROM {table} WHERE thread = ? AND run_id = ?",  # noqa: S608  # names above
            (thread, run.run_id),
        )
