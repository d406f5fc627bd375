"""Checkpoints in PostgreSQL, their large values also in a cache that is never believed."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Protocol

from deerflow.storage.checkpoints.address import Address, pack_id
from deerflow.storage.checkpoints.rows import Row, StoredValues
from deerflow.storage.checkpoints.saver import DeltaSaver
from deerflow.storage.checkpoints.untouched import Untouched
from deerflow.storage.sql.driver import Connection
from deerflow.storage.sql.reader import Readers
from deerflow.storage.sql.writer import Writer

CACHED_ABOVE = 4096
"""Bytes from which a value is worth the way to the cache; smaller ones come with the question."""

_ASK = (
    "SELECT CASE WHEN octet_length(data) <= ? THEN data END, sha256(data) FROM checkpoint_values"
    " WHERE thread = ? AND ns = ? AND channel = ? AND checkpoint_id = ?"
)


class ValueCache(Protocol):
    """Keeps bytes for a while; it may forget anything at any time, and never raises."""

    def get(self, thread_key: str, field: str) -> bytes | None:
        """What was put, None when it is gone or the cache is away."""
        ...

    def put(self, thread_key: str, field: str, data: bytes) -> None:
        """Keep the bytes."""
        ...

    def drop(self, thread_keys: Sequence[str]) -> None:
        """Forget threads."""
        ...

    def close(self) -> None:
        """Release connections."""
        ...


class CachedValues:
    """Values by way of a cache.

    The database is asked each time whether the value is stored and for its sha256; bytes of the
    cache that have another one (old, or put there by somebody else) are replaced.
    """

    def __init__(self, cache: ValueCache) -> None:
        self._cache = cache
        self._stored = StoredValues()

    def get(self, connection: Connection, at: Address, row: Row, channel: str) -> bytes | None:
        """See Values."""
        holder = pack_id(row.holders[channel])
        found = connection.execute(
            _ASK, (CACHED_ABOVE, row.thread, at.ns, channel, holder)
        ).fetchone()
        if found is None or found[0] is not None:
            return None if found is None else found[0]
        field = f"{at.ns}\x00{channel}"
        cached = self._cache.get(at.thread_key, field)
        if cached is not None and sha256(cached).digest() == found[1]:
            return cached
        data = self._stored.get(connection, at, row, channel)
        if data is not None:
            self._cache.put(at.thread_key, field, data)
        return data


class HybridCheckpointer(DeltaSaver):
    """DeltaSaver on PostgreSQL with a read cache, for processes that take threads over.

    Args:
        writer, readers, untouched: see DeltaSaver.
        cache: for large values; without it, it is plain PostgreSQL.
    """

    def __init__(
        self, writer: Writer, readers: Readers, untouched: Untouched, cache: ValueCache
    ) -> None:
        super().__init__(writer, readers, untouched, CachedValues(cache))
        self._cache = cache
        writer.on_deleted = cache.drop

    async def adelete_thread(self, thread_id: str) -> None:
        """See BaseCheckpointSaver."""
        await super().adelete_thread(thread_id)
        self._writer.submit(lambda batch: self._cache.drop([thread_id]))
