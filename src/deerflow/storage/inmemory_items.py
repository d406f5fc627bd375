"""The key-value store of the LangGraph protocol in memory."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace

from langgraph.store.base import Op, Result

from deerflow.storage.items import Namespace, StoredItem, Touched, UserItems, perform

Kept = dict[tuple[Namespace, str], StoredItem]


class MemoryShelf:
    """A Shelf over a dictionary."""

    def __init__(self, rows: Kept) -> None:
        self._rows = rows
        self.now = time.time()

    def one(self, namespace: Namespace, key: str) -> StoredItem | None:
        """See Shelf."""
        row = self._rows.get((namespace, key))
        return row if row is not None and self._lives(row) else None

    def newest(self, prefix: Namespace, limit: int | None) -> Iterable[StoredItem]:
        """See Shelf."""
        found = [row for row in self._living() if row.namespace[: len(prefix)] == prefix]
        found.sort(key=lambda row: (-row.updated_at, row.namespace, row.key))
        return found[:limit]

    def namespaces(self) -> list[Namespace]:
        """See Shelf."""
        return [row.namespace for row in self._living()]

    def put(self, row: StoredItem) -> None:
        """See Shelf."""
        found = self.one(row.namespace, row.key)
        born = row.created_at if found is None else found.created_at
        self._rows[(row.namespace, row.key)] = replace(row, created_at=born)

    def remove(self, namespace: Namespace, key: str) -> None:
        """See Shelf."""
        self._rows.pop((namespace, key), None)

    def sweep(self) -> None:
        """See Shelf."""
        for name in [name for name, row in self._rows.items() if not self._lives(row)]:
            del self._rows[name]

    def _living(self) -> list[StoredItem]:
        return [row for row in self._rows.values() if self._lives(row)]

    def _lives(self, row: StoredItem) -> bool:
        return row.expires_at is None or row.expires_at > self.now


class MemoryItems(UserItems):
    """A user's items in memory.

    Args:
        rows: the user's.
    """

    def __init__(self, rows: Kept) -> None:
        self._rows = rows

    async def _perform(self, ops: list[Op], *, writes: bool) -> tuple[list[Result], list[Touched]]:
        return perform(MemoryShelf(self._rows), ops)

    async def _touch(self, touched: list[Touched]) -> None:
        for namespace, key, end in touched:
            found = self._rows.get((namespace, key))
            if found is not None and found.ttl is not None:
                self._rows[(namespace, key)] = replace(found, expires_at=end)
