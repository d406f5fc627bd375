"""The queue of memories in SQL."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

from deerflow.storage.encoding import dump_json, load_json, pack, unpack
from deerflow.storage.protocol import QueuedExchange
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.claims import claimed, dead_owners
from deerflow.storage.sql.driver import Connection
from deerflow.storage.sql.reader import Readers
from deerflow.storage.sql.writer import Writer

_INSERT = (
    "INSERT INTO memory_queue (entry_id, user_id, thread, thread_id, queued_at, due_at,"
    " attempts, owner, payload) VALUES (?, ?, ?, ?, ?, 0, ?, '', ?)"
    " ON CONFLICT (entry_id) DO NOTHING"
)
_TIMES = (
    "SELECT min(queued_at), max(queued_at) FROM memory_queue"
    " WHERE thread = ? AND user_id = ? AND owner = ''"
)
_DUE = "UPDATE memory_queue SET due_at = ? WHERE thread = ? AND user_id = ? AND owner = ''"
_OWNERS = "SELECT DISTINCT owner FROM memory_queue WHERE owner > ''"
_FREE = "UPDATE memory_queue SET owner = '' WHERE owner = ?"
_NEXT = (
    "SELECT q.thread, q.user_id FROM memory_queue q WHERE q.owner = ''{conditions}"
    " AND NOT EXISTS"
    " (SELECT 1 FROM memory_queue b WHERE b.user_id = q.user_id AND b.owner > '')"
    " ORDER BY q.due_at, q.queued_at, q.id LIMIT 1"
)
_CLAIM = (
    "UPDATE memory_queue SET owner = ?, attempts = attempts + 1"
    " WHERE thread = ? AND user_id = ? AND owner = ''"
    " RETURNING queued_at, id, entry_id, user_id, thread_id, payload, attempts"
)
_GIVE_BACK = (
    "UPDATE memory_queue SET owner = '', attempts = attempts - 1 WHERE entry_id = ? AND owner = ?"
)
_KEY = "SELECT thread_key FROM thread_keys WHERE id = ?"
_DELETE = "DELETE FROM memory_queue WHERE entry_id = ?"
_RELEASE = "UPDATE memory_queue SET owner = '', due_at = ? WHERE entry_id = ?"


class SqlExchanges:
    """MemoryQueue on the writer's queue.

    Args:
        owner: who works on the entries that are claimed here.
    """

    def __init__(self, writer: Writer, readers: Readers, owner: str) -> None:
        self._writer = writer
        self._readers = readers
        self._owner = owner

    def enqueue(self, entry: QueuedExchange, *, debounce: float, ceiling: float) -> Awaitable[None]:
        """See MemoryQueue. Raises StorageError at once when the payload is not JSON."""
        payload = pack(dump_json(entry.payload))

        def work(batch: Batch) -> None:
            connection, ref = batch.connection, batch.thread(entry.thread_key)
            group = (ref.id, entry.user_id)
            head = (entry.entry_id, entry.user_id, ref.id, entry.thread_id, entry.queued_at)
            if connection.execute(_INSERT, (*head, entry.attempts, payload)).rowcount:
                first, newest = connection.execute(_TIMES, group).fetchone()
                due = min(newest + debounce, first + ceiling)
                connection.execute(_DUE, (due, *group))

        return self._writer.submit(work, scope=entry.thread_key)

    async def claim(
        self, *, now: float, user_id: str | None = None, force: bool = False
    ) -> list[QueuedExchange]:
        """See MemoryQueue."""
        conditions, values = "", list[Any]()
        for condition, value in (("q.due_at <= ?", now), ("q.user_id = ?", user_id)):
            if value is not None and not (force and value is now):
                conditions += f" AND {condition}"
                values.append(value)
        sql = _NEXT.format(conditions=conditions)

        def work(batch: Batch) -> list[QueuedExchange]:
            connection = batch.connection
            for owner in dead_owners(batch, _OWNERS):
                connection.execute(_FREE, (owner,))
            group = connection.execute(sql, values).fetchone()
            if group is None:
                return []
            key = connection.execute(_KEY, group[:1]).fetchone()[0]
            rows = connection.execute(_CLAIM, (self._owner, *group)).fetchall()
            return [_exchange(key, row) for row in sorted(rows)]

        def give_back(batch: Batch, entries: list[QueuedExchange]) -> None:
            for entry in entries:
                batch.connection.execute(_GIVE_BACK, (entry.entry_id, self._owner))

        return await claimed(self._writer, work, give_back)

    async def complete(self, entry_ids: Sequence[str]) -> None:
        """See MemoryQueue."""
        ids = [(id,) for id in entry_ids]

        def work(batch: Batch) -> None:
            batch.connection.executemany(_DELETE, ids)

        await self._writer.submit(work)

    async def release(self, entry_ids: Sequence[str], *, due_at: float) -> None:
        """See MemoryQueue."""
        values = [(due_at, id) for id in entry_ids]

        def work(batch: Batch) -> None:
            batch.connection.executemany(_RELEASE, values)

        await self._writer.submit(work)

    async def pending(self, user_id: str | None = None) -> int:
        """See MemoryQueue."""
        return await self._one("SELECT count(*) FROM memory_queue", "WHERE", user_id)

    async def next_due(self, user_id: str | None = None) -> float | None:
        """See MemoryQueue."""
        sql = "SELECT min(due_at) FROM memory_queue WHERE owner = ''"
        return await self._one(sql, "AND", user_id)

    async def _one(self, sql: str, joint: str, user_id: str | None) -> Any:
        """The only value of a query that may be narrowed to a user."""
        values = () if user_id is None else (user_id,)
        sql = sql if user_id is None else f"{sql} {joint} user_id = ?"

        def query(connection: Connection) -> Any:
            return connection.execute(sql, values).fetchone()[0]

        return await self._readers.read(query, scope="")


def _exchange(thread_key: str, row: tuple[Any, ...]) -> QueuedExchange:
    queued_at, _, entry_id, user_id, thread_id, payload, attempts = row
    return QueuedExchange(
        entry_id=entry_id,
        user_id=user_id,
        thread_id=thread_id,
        thread_key=thread_key,
        payload=load_json(unpack(payload)),
        queued_at=queued_at,
        attempts=attempts,
    )
