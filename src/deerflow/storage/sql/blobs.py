"""Blobs in SQL: content-addressed per user, gone with their last reference."""

from __future__ import annotations

import asyncio
from hashlib import sha256 as digest

from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.driver import Connection
from deerflow.storage.sql.reader import Readers
from deerflow.storage.sql.writer import Writer

_FIND = "SELECT id FROM blobs WHERE user_id = ? AND sha256 = ? /*pg FOR UPDATE */"
_INSERT = (
    "INSERT INTO blobs (user_id, sha256, media_type, data) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (user_id, sha256) DO NOTHING RETURNING id"
)
_HOLD = "SELECT 1 FROM blobs WHERE id = ? /*pg FOR UPDATE */"
_ORPHAN = (
    "DELETE FROM blobs WHERE id = ? AND NOT EXISTS (SELECT 1 FROM blob_refs r WHERE r.blob = ?)"
)


def release_all(connection: Connection, thread: int) -> None:
    """Drop every reference of a thread, and the blobs that nobody else refers to."""
    found = connection.execute(
        "SELECT blob FROM blob_refs WHERE thread = ? ORDER BY blob", (thread,)
    ).fetchall()
    connection.execute("DELETE FROM blob_refs WHERE thread = ?", (thread,))
    for (blob,) in found:
        _drop_orphan(connection, blob)


def _drop_orphan(connection: Connection, blob: int) -> None:
    """Remove a blob without references. It is held first: a reference may just be made to it."""
    connection.execute(_HOLD, (blob,)).fetchone()
    connection.execute(_ORPHAN, (blob, blob))


class SqlBlobs:
    """Blobs on the writer's queue."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def put(self, user_id: str, thread_key: str, data: bytes, media_type: str) -> str:
        """See Blobs."""
        sha = await asyncio.to_thread(lambda: digest(data).digest())

        def work(batch: Batch) -> None:
            connection, ref = batch.connection, batch.thread(thread_key)
            row = None
            while row is None:  # whoever removes it in between is waited for
                row = connection.execute(_FIND, (user_id, sha)).fetchone()
                row = (
                    row or connection.execute(_INSERT, (user_id, sha, media_type, data)).fetchone()
                )
            connection.execute(
                "INSERT INTO blob_refs (thread, blob) VALUES (?, ?)"
                " ON CONFLICT (thread, blob) DO NOTHING",
                (ref.id, row[0]),
            )

        await self._writer.submit(work, scope=thread_key)
        return sha.hex()

    async def get(self, user_id: str, sha256: str) -> tuple[bytes, str] | None:
        """See Blobs."""
        sha = _parsed(sha256)

        def query(connection: Connection) -> tuple[bytes, str] | None:
            return connection.execute(
                "SELECT data, media_type FROM blobs WHERE user_id = ? AND sha256 = ?",
                (user_id, sha),
            ).fetchone()

        return await self._readers.read(query, scope="")

    async def release(self, user_id: str, thread_key: str, sha256: str) -> None:
        """See Blobs."""
        sha = _parsed(sha256)

        def work(batch: Batch) -> None:
            connection = batch.connection
            row = connection.execute(
                "SELECT id FROM blobs WHERE user_id = ? AND sha256 = ?", (user_id, sha)
            ).fetchone()
            if row is None:
                return
            connection.execute(
                "DELETE FROM blob_refs WHERE blob = ?"
                " AND thread = (SELECT id FROM thread_keys WHERE thread_key = ?)",
                (row[0], thread_key),
            )
            _drop_orphan(connection, row[0])

        await self._writer.submit(work, scope=thread_key)


def _parsed(sha256: str) -> bytes:
    """Bytes of a hex digest; text that is none matches nothing."""
    try:
        return bytes.fromhex(sha256)
    except ValueError:
        return b""
