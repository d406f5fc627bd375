"""The journal of effects in SQL: what a resumed run must not do twice."""

from __future__ import annotations

from collections.abc import Awaitable
from hashlib import sha256

from deerflow.storage.encoding import clean_text, column_text, pack, unpack
from deerflow.storage.protocol import CallKey, ModelKey, ToolRecord
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.driver import Connection
from deerflow.storage.sql.reader import Readers
from deerflow.storage.sql.writer import Writer

_STARTED = (
    "INSERT INTO tool_calls (thread, run_id, call, name, started) VALUES (?, ?, ?, ?, 1)"
    " ON CONFLICT (thread, call) DO NOTHING"
)
_FINISHED = (
    "INSERT INTO tool_calls (thread, run_id, call, name, started, result) VALUES (?, ?, ?, ?, 0, ?)"
    " ON CONFLICT (thread, call) DO UPDATE SET result = excluded.result, name = excluded.name"
)
_REPLIED = (
    "INSERT INTO model_calls (thread, run_id, call, reply) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (thread, call) DO UPDATE SET run_id = excluded.run_id, reply = excluded.reply"
)
_TOOL = (
    "SELECT c.name, c.started, c.result FROM tool_calls c"
    " JOIN thread_keys k ON k.id = c.thread WHERE k.thread_key = ? AND c.call = ?"
)
_REPLY = (
    "SELECT c.reply FROM model_calls c"
    " JOIN thread_keys k ON k.id = c.thread WHERE k.thread_key = ? AND c.call = ?"
)


def call_digest(*parts: str | int) -> bytes:
    """16 bytes that stand for a key; the separator cannot occur in ids."""
    return sha256("\x00".join(map(str, parts)).encode("utf-8", "replace")).digest()[:16]


def _tool_digest(key: CallKey) -> bytes:
    return call_digest(key.run_id, key.namespace, key.message_id, key.index)


def _model_digest(key: ModelKey) -> bytes:
    return call_digest(key.run_id, key.namespace, key.turn, key.request_sha256)


def forget_run(connection: Connection, run_id: str, thread: int) -> None:
    """Drop the journal and the children's checkpoints of a run that ended well: none resumes it."""
    for table in ("tool_calls", "model_calls"):
        connection.execute(
            f"DELETE FROM {table} WHERE thread = ? AND run_id = ?",  # noqa: S608  # two names above
            (thread, run_id),
        )
    for table in ("checkpoint_values", "checkpoint_writes", "checkpoints"):
        connection.execute(
            f"DELETE FROM {table} WHERE thread = ? AND ns > ''",  # noqa: S608  # three names above
            (thread,),
        )


PACK_ABOVE = 8_192
"""Rows of the journal go when their run succeeds: only large ones are worth compressing."""


class SqlJournal:
    """Journal on the writer's queue."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def tool_started(self, key: CallKey, name: str) -> None:
        """See Journal. Parallel calls share one commit."""
        digest, clean = _tool_digest(key), column_text(name)

        def work(batch: Batch) -> None:
            ref = batch.thread(key.thread_key)
            batch.connection.execute(_STARTED, (ref.id, key.run_id, digest, clean))

        await self._writer.submit(work, scope=key.thread_key)

    def tool_finished(self, key: CallKey, name: str, result: str) -> Awaitable[None]:
        """See Journal."""
        digest, text = _tool_digest(key), clean_text(result).encode()
        clean = column_text(name)

        def work(batch: Batch) -> None:
            ref = batch.thread(key.thread_key)
            batch.connection.execute(
                _FINISHED, (ref.id, key.run_id, digest, clean, pack(text, PACK_ABOVE))
            )

        return self._writer.submit(work, scope=key.thread_key)

    async def tool_lookup(self, key: CallKey) -> ToolRecord | None:
        """See Journal."""
        digest = _tool_digest(key)

        def query(connection: Connection) -> ToolRecord | None:
            row = connection.execute(_TOOL, (key.thread_key, digest)).fetchone()
            if row is None:
                return None
            result = None if row[2] is None else unpack(row[2]).decode()
            return ToolRecord(row[0], bool(row[1]), result)

        return await self._readers.read(query, scope=key.thread_key)

    def model_finished(self, key: ModelKey, reply: str) -> Awaitable[None]:
        """See Journal."""
        digest, text = _model_digest(key), clean_text(reply).encode()

        def work(batch: Batch) -> None:
            ref = batch.thread(key.thread_key)
            batch.connection.execute(_REPLIED, (ref.id, key.run_id, digest, pack(text, PACK_ABOVE)))

        return self._writer.submit(work, scope=key.thread_key)

    async def model_lookup(self, key: ModelKey) -> str | None:
        """See Journal."""
        digest = _model_digest(key)

        def query(connection: Connection) -> str | None:
            row = connection.execute(_REPLY, (key.thread_key, digest)).fetchone()
            return None if row is None else unpack(row[0]).decode()

        return await self._readers.read(query, scope=key.thread_key)
