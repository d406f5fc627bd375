"""The outbox of webhooks in SQL."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any, Literal

from deerflow.storage.encoding import dump_json, load_json, pack, unpack
from deerflow.storage.protocol import Delivery
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.claims import claimed
from deerflow.storage.sql.driver import Connection
from deerflow.storage.sql.reader import Readers
from deerflow.storage.sql.writer import Writer

_SELECT = (
    "SELECT d.delivery_id, d.user_id, k.thread_key, d.run_id, d.url, d.payload, d.status,"
    " d.attempts, d.due_at FROM deliveries d JOIN thread_keys k ON k.id = d.thread"
)
_INSERT = (
    "INSERT INTO deliveries (delivery_id, thread, user_id, run_id, url, status, attempts, due_at,"
    " claimed_until, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?)"
    " ON CONFLICT (delivery_id) DO NOTHING"
)
_ENDED = "SELECT 1 FROM runs WHERE run_id = ? AND ended_at IS NOT NULL"
_DUE = (
    f"{_SELECT} WHERE d.status = 'pending' AND d.due_at <= ? AND d.claimed_until <= ?"
    " ORDER BY d.due_at, d.id LIMIT ?"
)
_TAKE = (
    "UPDATE deliveries SET claimed_until = ?, attempts = attempts + 1"
    " WHERE delivery_id = ? AND status = 'pending' AND claimed_until <= ?"
)
_GIVE_BACK = (
    "UPDATE deliveries SET claimed_until = 0, attempts = attempts - 1"
    " WHERE delivery_id = ? AND status = 'pending' AND attempts = ?"
)
_SETTLE = "UPDATE deliveries SET status = ?, due_at = ?, claimed_until = 0 WHERE delivery_id = ?"
_RELEASE = (
    "UPDATE deliveries SET status = 'pending', due_at = ? WHERE run_id = ? AND status = 'waiting'"
)


_OF_RUN = "SELECT thread, user_id, url, payload FROM deliveries WHERE run_id = ? ORDER BY id"


def insert_delivery(connection: Connection, thread: int, row: Delivery) -> None:
    """Write a row; one that waits for the end of a run that has ended is due at once."""
    ended = connection.execute(_ENDED, (row.run_id,)).fetchone() is not None
    status = "pending" if ended and row.status == "waiting" else row.status
    head = (row.delivery_id, thread, row.user_id, row.run_id, row.url)
    payload = pack(dump_json(row.payload))
    connection.execute(_INSERT, (*head, status, row.attempts, row.due_at, payload))


def repeat_deliveries(connection: Connection, run_id: str) -> None:
    """A run that had ended goes on: every address of it is called at its next end as well."""
    rows = connection.execute(_OF_RUN, (run_id,)).fetchall()
    for thread, user_id, url, payload in {(row[1], row[2]): row for row in rows}.values():
        head = (uuid.uuid4().hex, thread, user_id, run_id, url)
        connection.execute(_INSERT, (*head, "waiting", 0, 0.0, payload))


def release_deliveries(connection: Connection, run_id: str, now: float) -> None:
    """The run has ended: what waited for that is due."""
    connection.execute(_RELEASE, (now, run_id))


def _row(found: tuple[Any, ...]) -> Delivery:
    delivery_id, user_id, thread_key, run_id, url, payload, status, attempts, due_at = found
    return Delivery(
        delivery_id,
        user_id,
        thread_key,
        run_id,
        url,
        load_json(unpack(payload)),
        status,
        attempts,
        due_at,
    )


class SqlDeliveries:
    """Deliveries on the writer's queue."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def add(self, row: Delivery) -> None:
        """See Deliveries."""

        def work(batch: Batch) -> None:
            insert_delivery(batch.connection, batch.thread(row.thread_key).id, row)

        await self._writer.submit(work, scope=row.thread_key, fenced=False)

    async def claim(self, *, now: float, seconds: float, limit: int = 10) -> list[Delivery]:
        """See Deliveries."""

        def work(batch: Batch) -> list[Delivery]:
            connection, taken = batch.connection, list[Delivery]()
            for found in connection.execute(_DUE, (now, now, limit)).fetchall():
                row = _row(found)
                values = (now + seconds, row.delivery_id, now)
                if connection.execute(_TAKE, values).rowcount:
                    taken.append(replace(row, attempts=row.attempts + 1))
            return taken

        def give_back(batch: Batch, rows: list[Delivery]) -> None:
            for row in rows:
                batch.connection.execute(_GIVE_BACK, (row.delivery_id, row.attempts))

        def look(connection: Connection) -> bool:
            return connection.execute(_DUE, (now, now, 1)).fetchone() is not None

        if not await self._readers.read(look, scope=""):  # the writer is not bothered for nothing
            return []
        return await claimed(self._writer, work, give_back)

    async def settle(
        self, delivery_id: str, status: Literal["pending", "done", "failed"], *, due_at: float = 0.0
    ) -> None:
        """See Deliveries."""

        def work(batch: Batch) -> None:
            batch.connection.execute(_SETTLE, (status, due_at, delivery_id))

        await self._writer.submit(work)

    async def of_run(self, run_id: str) -> list[Delivery]:
        """See Deliveries."""

        def query(connection: Connection) -> list[Delivery]:
            rows = connection.execute(f"{_SELECT} WHERE d.run_id = ? ORDER BY d.id", (run_id,))
            return [_row(row) for row in rows.fetchall()]

        return await self._readers.read(query, scope="")
