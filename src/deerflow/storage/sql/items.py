"""The key-value store of the LangGraph protocol in SQL."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from langgraph.store.base import Op, Result

from deerflow.storage.encoding import dump_json, load_json, pack, unpack
from deerflow.storage.items import Namespace, StoredItem, Touched, UserItems, perform
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.driver import Connection
from deerflow.storage.sql.reader import Readers
from deerflow.storage.sql.writer import Writer

_LIVING = "user_id = ? AND (expires_at IS NULL OR expires_at > ?)"
_SELECT = "SELECT namespace, key, created_at, updated_at, expires_at, data FROM items"
_ONE = f"{_SELECT} WHERE {_LIVING} AND namespace = ? AND key = ?"
_NEWEST = (
    f"{_SELECT} WHERE {_LIVING} AND substr(namespace, 1, ?) = ?"
    " ORDER BY updated_at DESC, namespace, key"
)
_NAMESPACES = f"SELECT DISTINCT namespace FROM items WHERE {_LIVING}"  # noqa: S608
_PUT = (
    "INSERT INTO items (user_id, namespace, key, created_at, updated_at, expires_at, data)"
    " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (user_id, namespace, key) DO UPDATE"
    " SET updated_at = excluded.updated_at, expires_at = excluded.expires_at,"
    " data = excluded.data, created_at ="
    " CASE WHEN items.expires_at <= excluded.updated_at THEN excluded.created_at"
    " ELSE items.created_at END"
)
_REMOVE = "DELETE FROM items WHERE user_id = ? AND namespace = ? AND key = ?"
_SWEEP = "DELETE FROM items WHERE user_id = ? AND expires_at <= ?"
_TOUCH = (
    "UPDATE items SET expires_at = ?"
    " WHERE user_id = ? AND namespace = ? AND key = ? AND expires_at IS NOT NULL"
)


def _text(namespace: Namespace) -> str:
    """Stored form: each label with a period behind it, which no label holds."""
    return "".join(f"{label}." for label in namespace)


def _labels(text: str) -> Namespace:
    return tuple(text.split(".")[:-1])


def _row(found: tuple[Any, ...]) -> StoredItem:
    data = load_json(unpack(found[5]))
    return StoredItem(
        namespace=_labels(found[0]),
        key=found[1],
        value=data["value"],
        created_at=found[2],
        updated_at=found[3],
        ttl=data.get("ttl"),
        expires_at=found[4],
    )


class SqlShelf:
    """A Shelf over a connection."""

    def __init__(self, connection: Connection, user_id: str) -> None:
        self._connection = connection
        self._user_id = user_id
        self.now = time.time()

    def one(self, namespace: Namespace, key: str) -> StoredItem | None:
        """See Shelf."""
        values = (self._user_id, self.now, _text(namespace), key)
        found = self._connection.execute(_ONE, values).fetchone()
        return None if found is None else _row(found)

    def newest(self, prefix: Namespace, limit: int | None) -> Iterable[StoredItem]:
        """See Shelf."""
        text = _text(prefix)
        values: list[Any] = [self._user_id, self.now, len(text), text]
        sql = _NEWEST
        if limit is not None:
            sql += " LIMIT ?"
            values.append(limit)
        rows = self._connection.execute(sql, values)
        while (found := rows.fetchone()) is not None:
            yield _row(found)

    def namespaces(self) -> list[Namespace]:
        """See Shelf."""
        rows = self._connection.execute(_NAMESPACES, (self._user_id, self.now)).fetchall()
        return [_labels(text) for (text,) in rows]

    def put(self, row: StoredItem) -> None:
        """See Shelf."""
        data = {"value": row.value} if row.ttl is None else {"value": row.value, "ttl": row.ttl}
        names = (self._user_id, _text(row.namespace), row.key)
        times = (row.created_at, row.updated_at, row.expires_at)
        self._connection.execute(_PUT, (*names, *times, pack(dump_json(data))))

    def remove(self, namespace: Namespace, key: str) -> None:
        """See Shelf."""
        self._connection.execute(_REMOVE, (self._user_id, _text(namespace), key))

    def sweep(self) -> None:
        """See Shelf."""
        self._connection.execute(_SWEEP, (self._user_id, self.now))


class SqlItems(UserItems):
    """A user's items on the writer's queue."""

    def __init__(self, writer: Writer, readers: Readers, user_id: str) -> None:
        self._writer = writer
        self._readers = readers
        self._user_id = user_id

    async def _perform(self, ops: list[Op], *, writes: bool) -> tuple[list[Result], list[Touched]]:
        def work(batch: Batch) -> tuple[list[Result], list[Touched]]:
            return perform(SqlShelf(batch.connection, self._user_id), ops)

        def query(connection: Connection) -> tuple[list[Result], list[Touched]]:
            return perform(SqlShelf(connection, self._user_id), ops)

        return await (self._writer.submit(work) if writes else self._readers.read(query))

    async def _touch(self, touched: list[Touched]) -> None:
        rows = [(end, self._user_id, _text(namespace), key) for namespace, key, end in touched]

        def work(batch: Batch) -> None:
            batch.connection.executemany(_TOUCH, rows)

        await self._writer.submit(work)
