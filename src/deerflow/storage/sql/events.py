"""The event log in SQL."""

from __future__ import annotations

import time
from collections.abc import Awaitable
from typing import Any

from deerflow.events import Event
from deerflow.storage.encoding import dump_json, load_json, pack, unpack
from deerflow.storage.follow import PAGE, EventFollower, Hub
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.driver import Connection
from deerflow.storage.sql.reader import Readers
from deerflow.storage.sql.writer import Writer

_INSERT = (
    "INSERT INTO run_events (thread, seq, run_id, type, created_at, payload)"
    " VALUES (?, ?, ?, ?, ?, ?)"
)
_SELECT = (
    "SELECT e.seq, e.type, e.run_id, coalesce(t.thread_id, k.thread_key), e.created_at, e.payload"
    " FROM thread_keys k JOIN run_events e ON e.thread = k.id LEFT JOIN threads t ON t.id = k.id"
    " WHERE k.thread_key = ? AND k.retired_at IS NULL AND e.seq > ? ORDER BY e.seq LIMIT ?"
)


def insert_event(batch: Batch, thread_key: str, run_id: str, type: str, text: bytes) -> Event:
    """Write one event inside a transaction; `text` is its payload as JSON."""
    ref = batch.thread(thread_key)
    seq, now = batch.next_seq(ref), time.time()
    batch.connection.execute(_INSERT, (ref.id, seq, run_id, type, now, pack(text)))
    event = Event(seq, type, run_id, ref.thread_id, now, load_json(text))
    batch.events.setdefault(thread_key, []).append(event)
    return event


class SqlEvents:
    """EventLog on the writer's queue."""

    def __init__(self, writer: Writer, readers: Readers, hub: Hub) -> None:
        self._writer = writer
        self._readers = readers
        self._hub = hub

    def append(
        self, thread_key: str, run_id: str, type: str, payload: dict[str, Any]
    ) -> Awaitable[Event]:
        """See EventLog. Raises StorageError at once when the payload is not JSON."""
        text = dump_json(payload)
        return self._writer.submit(
            lambda batch: insert_event(batch, thread_key, run_id, type, text), scope=thread_key
        )

    async def read(self, thread_key: str, *, after: int = 0, limit: int = 1000) -> list[Event]:
        """See EventLog."""

        def query(connection: Connection) -> list[Event]:
            rows = connection.execute(_SELECT, (thread_key, after, limit)).fetchall()
            return [Event(*row[:5], payload=load_json(unpack(row[5]))) for row in rows]

        return await self._readers.read(query, scope=thread_key)

    def follow(self, thread_key: str, *, after: int = 0) -> EventFollower:
        """See EventLog."""

        async def page(cursor: int) -> list[Event]:
            return await self.read(thread_key, after=cursor, limit=PAGE)

        follower = self._hub.follow_events(thread_key, EventFollower(page, after))
        self._writer.watch()
        return follower
