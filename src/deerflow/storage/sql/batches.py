"""Batches and their items in SQL."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

from deerflow.errors import ConflictError, NotFoundError, ThreadGoneError
from deerflow.storage.encoding import clean_text, dump_json, load_json, pack, unpack
from deerflow.storage.protocol import BatchItem, BatchRow, ItemStatus
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.claims import claimed, dead_owners
from deerflow.storage.sql.driver import Connection
from deerflow.storage.sql.reader import Readers
from deerflow.storage.sql.writer import Writer

_ONE = (
    "SELECT b.batch_id, b.user_id, k.thread_key, b.run_id, b.total, b.created_at, b.settings"
    " FROM batches b JOIN thread_keys k ON k.id = b.thread WHERE b.batch_id = ?"
)
_ID = "SELECT id FROM batches WHERE batch_id = ?"
_INSERT = (
    "INSERT INTO batches (batch_id, user_id, thread, run_id, total, created_at, settings)"
    " VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id"
)
_INSERT_ITEM = (
    "INSERT INTO batch_items (batch, position, status, attempts, owner, item)"
    " VALUES (?, ?, 'pending', 0, '', ?)"
)
_CLAIM = (
    "UPDATE batch_items SET status = 'running', attempts = attempts + 1, owner = ? WHERE id IN"
    " (SELECT id FROM batch_items WHERE batch = ? AND status = 'pending' ORDER BY position LIMIT ?)"
    " RETURNING position, item, status, attempts, result, owner"
)
_GIVE_BACK = (
    "UPDATE batch_items SET status = 'pending', attempts = attempts - 1, owner = ''"
    " WHERE batch = ? AND position = ? AND status = 'running' AND owner = ?"
)
_OWNERS = "SELECT DISTINCT owner FROM batch_items WHERE batch = ? AND status = 'running'"
_REOPEN_WAITING = (
    "UPDATE batch_items SET status = 'pending', owner = '' WHERE batch = ? AND status = 'waiting'"
)
_REOPEN_RUNNING = (
    "UPDATE batch_items SET status = 'pending', owner = ''"
    " WHERE batch = ? AND status = 'running' AND owner = ?"
)
_SETTLE = (
    "UPDATE batch_items SET status = ?, result = ?, owner = ''"
    " WHERE batch = ? AND position = ? AND status <> 'done'"
)
_ITEMS = (
    "SELECT position, item, status, attempts, result, owner FROM batch_items"
    " WHERE batch = ? AND position > ? ORDER BY position LIMIT ?"
)
_COUNTS = "SELECT status, count(*) FROM batch_items WHERE batch = ? GROUP BY status"
_KNOWN = "SELECT 1 FROM batch_items WHERE batch = ? AND position = ?"

PACK_ABOVE = 8_192
"""Items come by the thousand and go with their thread: only large ones are worth compressing."""


def delete_batches(connection: Connection, thread: int) -> None:
    """Remove a thread's batches with their items."""
    connection.execute(
        "DELETE FROM batch_items WHERE batch IN (SELECT id FROM batches WHERE thread = ?)",
        (thread,),
    )
    connection.execute("DELETE FROM batches WHERE thread = ?", (thread,))


def _one(connection: Connection, batch_id: str) -> BatchRow | None:
    row = connection.execute(_ONE, (batch_id,)).fetchone()
    return None if row is None else BatchRow(*row[:6], settings=load_json(unpack(row[6])))


def _id(connection: Connection, batch_id: str) -> int | None:
    """The batch's row; None matches no item."""
    row = connection.execute(_ID, (batch_id,)).fetchone()
    return None if row is None else row[0]


def _packed(text: str) -> bytes:
    return pack(clean_text(text).encode(), PACK_ABOVE)


def _item(batch_id: str, row: tuple[Any, ...]) -> BatchItem:
    position, item, status, attempts, result, owner = row
    return BatchItem(
        batch_id,
        position,
        unpack(item).decode(),
        status,
        attempts,
        None if result is None else unpack(result).decode(),
        owner,
    )


class SqlBatches:
    """Batches on the writer's queue.

    Args:
        owner: who runs the items that are claimed here.
    """

    def __init__(self, writer: Writer, readers: Readers, owner: str) -> None:
        self._writer = writer
        self._readers = readers
        self._owner = owner

    async def create(self, row: BatchRow, items: Sequence[str]) -> BatchRow:
        """See Batches."""
        settings = pack(dump_json(row.settings))
        known = await self.get(row.batch_id)
        texts = await asyncio.to_thread(lambda: [] if known else [_packed(item) for item in items])

        def work(batch: Batch) -> BatchRow:
            connection, ref = batch.connection, batch.thread(row.thread_key)
            found = _one(connection, row.batch_id)
            if found is not None and found.thread_key != row.thread_key:
                raise ConflictError("A batch with this id belongs to another thread.")
            if found is None:
                head = (row.batch_id, row.user_id, ref.id, row.run_id, row.total, row.created_at)
                id = connection.execute(_INSERT, (*head, settings)).fetchone()[0]
                connection.executemany(
                    _INSERT_ITEM, ((id, place, text) for place, text in enumerate(texts))
                )
            return found or row

        return await self._writer.submit(work, scope=row.thread_key)

    async def get(self, batch_id: str) -> BatchRow | None:
        """See Batches."""
        return await self._readers.read(lambda c: _one(c, batch_id))

    async def reopen(self, batch_id: str) -> int:
        """See Batches."""

        def work(batch: Batch) -> int:
            connection, id = batch.connection, _id(batch.connection, batch_id)
            count = connection.execute(_REOPEN_WAITING, (id,)).rowcount
            for owner in {self._owner, *dead_owners(batch, _OWNERS, (id,))}:
                count += connection.execute(_REOPEN_RUNNING, (id, owner)).rowcount
            return count

        return await self._writer.submit(work)

    async def claim(self, batch_id: str, limit: int) -> list[BatchItem]:
        """See Batches."""

        def work(batch: Batch) -> list[BatchItem]:
            id = _id(batch.connection, batch_id)
            rows = batch.connection.execute(_CLAIM, (self._owner, id, limit)).fetchall()
            return [_item(batch_id, row) for row in sorted(rows)]

        def give_back(batch: Batch, items: list[BatchItem]) -> None:
            id = _id(batch.connection, batch_id)
            for item in items:
                batch.connection.execute(_GIVE_BACK, (id, item.index, self._owner))

        return await claimed(self._writer, work, give_back)

    def settle(
        self, batch_id: str, index: int, status: ItemStatus, result: str | None = None
    ) -> Awaitable[None]:
        """See Batches."""

        def work(batch: Batch) -> None:
            connection, id = batch.connection, _id(batch.connection, batch_id)
            if id is None:
                raise ThreadGoneError("The batch's thread was deleted.")
            packed = None if result is None else _packed(result)
            found = connection.execute(_SETTLE, (status, packed, id, index)).rowcount
            if not found and connection.execute(_KNOWN, (id, index)).fetchone() is None:
                raise NotFoundError(f"The batch has no item {index}.")

        return self._writer.submit(work)

    async def items(self, batch_id: str, *, after: int = -1, limit: int = 1000) -> list[BatchItem]:
        """See Batches."""

        def query(connection: Connection) -> list[BatchItem]:
            id = _id(connection, batch_id)
            rows = connection.execute(_ITEMS, (id, after, limit)).fetchall()
            return [_item(batch_id, row) for row in rows]

        return await self._readers.read(query, scope="")

    async def counts(self, batch_id: str) -> dict[ItemStatus, int]:
        """See Batches."""

        def query(connection: Connection) -> dict[ItemStatus, int]:
            return dict(connection.execute(_COUNTS, (_id(connection, batch_id),)).fetchall())

        return await self._readers.read(query, scope="")
