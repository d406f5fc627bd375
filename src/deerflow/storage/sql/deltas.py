"""Token deltas in SQL: joined while they wait, dropped with the event of the message."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, field

from deerflow.storage.encoding import column_text
from deerflow.storage.follow import DeltaFollower, Dropped, Hub
from deerflow.storage.protocol import Delta
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.driver import Connection
from deerflow.storage.sql.reader import Readers
from deerflow.storage.sql.writer import Writer
from deerflow.storage.ticket import Ticket

_INSERT = (
    "INSERT INTO run_deltas (thread, run_id, message_id, start, text) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (run_id, message_id, start) DO UPDATE"
    " SET thread = excluded.thread, text = excluded.text"
)
_OF_MESSAGE = (
    "SELECT run_id, message_id, start, text FROM run_deltas"
    " WHERE run_id = ? AND message_id = ? ORDER BY start"
)


@dataclass(slots=True)
class _Pending:
    """Contiguous text of one message that the writer has not taken yet."""

    first: Delta
    pieces: list[str] = field(default_factory=list[str])
    length: int = 0
    taken: bool = False
    finished: bool = False
    ticket: Ticket[None] | None = None

    def joins(self, delta: Delta) -> bool:
        """Whether the delta continues this text and the writer has not taken it."""
        return not self.taken and delta.offset == self.first.offset + self.length

    def add(self, text: str) -> None:
        self.pieces.append(text)
        self.length += len(text)

    def whole(self) -> Delta:
        """The text so far; from now on nothing joins."""
        self.taken = True
        first = self.first
        return Delta(first.run_id, first.message_id, first.offset, "".join(self.pieces))


class SqlDeltas:
    """DeltaLog on the writer's queue.

    Args:
        writer, readers, hub: of the database.
        eager: whether other processes hear of a commit at once, so that one is worth hurrying for.
    """

    def __init__(self, writer: Writer, readers: Readers, hub: Hub, *, eager: bool) -> None:
        self._eager = eager
        self._writer = writer
        self._readers = readers
        self._hub = hub
        self._pending: dict[tuple[str, str], _Pending] = {}

    def append(self, thread_key: str, delta: Delta) -> Awaitable[None]:
        """See DeltaLog. Deltas that one commit takes become one row."""
        message = (delta.run_id, delta.message_id)
        text = column_text(delta.text)
        pending = self._pending.get(message)
        if pending is not None and pending.ticket is not None and pending.joins(delta):
            pending.add(text)
            return pending.ticket
        first_of_message = pending is None
        pending = self._pending[message] = _Pending(delta)
        pending.add(text)
        pending.ticket = self._writer.submit(
            lambda batch: self._insert(batch, thread_key, pending), scope=thread_key
        )
        if first_of_message and (self._eager or self._hub.delta_followers(thread_key)):
            self._writer.hurry()
        return pending.ticket

    async def read(self, run_id: str, message_id: str) -> list[Delta]:
        """See DeltaLog."""

        def query(connection: Connection) -> list[Delta]:
            rows = connection.execute(_OF_MESSAGE, (run_id, message_id)).fetchall()
            return [Delta(*row) for row in rows]

        return await self._readers.read(query)

    def follow(self, thread_key: str) -> DeltaFollower:
        """See DeltaLog."""
        follower = self._hub.follow_deltas(thread_key, DeltaFollower())
        self._writer.watch()
        return follower

    def finish(self, run_id: str, message_id: str) -> Awaitable[None]:
        """See DeltaLog."""
        pending = self._pending.pop((run_id, message_id), None)
        if pending is not None:
            pending.finished = True

        def work(batch: Batch) -> None:
            row = batch.connection.execute(
                "SELECT k.thread_key FROM run_deltas d JOIN thread_keys k ON k.id = d.thread"
                " WHERE d.run_id = ? AND d.message_id = ? LIMIT 1",
                (run_id, message_id),
            ).fetchone()
            if row is None:
                return
            batch.connection.execute(
                "DELETE FROM run_deltas WHERE run_id = ? AND message_id = ?", (run_id, message_id)
            )
            batch.deltas.setdefault(row[0], []).append(Dropped(run_id, message_id))

        return self._writer.submit(work, scope=self._writer.fences.scope_of(run_id))

    def _insert(self, batch: Batch, thread_key: str, pending: _Pending) -> None:
        ref, delta = batch.thread(thread_key), pending.whole()
        if pending.finished and not self._hub.delta_followers(thread_key):
            return  # the transaction that follows would remove it
        batch.connection.execute(
            _INSERT, (ref.id, delta.run_id, delta.message_id, delta.offset, delta.text)
        )
        batch.deltas.setdefault(thread_key, []).append(delta)
