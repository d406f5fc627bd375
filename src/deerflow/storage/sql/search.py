"""Search of threads in SQL: metadata is compared here, so that every database says the same."""

from __future__ import annotations

from typing import Any

from deerflow.storage.encoding import dump_json, load_json
from deerflow.storage.protocol import ThreadQuery, ThreadRow
from deerflow.storage.sql.driver import Connection
from deerflow.storage.sql.thread_rows import SELECT_THREAD, thread_row
from deerflow.storage.states import PINNED, has_metadata

_COUNT = "SELECT count(*) FROM threads t"
_LIGHT = "SELECT t.id, t.metadata FROM threads t"
_BY_ID = 500
"""Rows that are fetched by their ids at once."""


def search_threads(connection: Connection, user_id: str, query: ThreadQuery) -> list[ThreadRow]:
    """The page that a query asks for."""
    where, values = _conditions(user_id, query)
    order = _order(query)
    if not query.metadata and not query.pinned_first:
        sql = f"{SELECT_THREAD}{where}{order} LIMIT ? OFFSET ?"
        rows = connection.execute(sql, (*values, query.limit, query.offset)).fetchall()
        return [thread_row(row) for row in rows]
    page = _matching(connection, f"{_LIGHT}{where}{order}", values, query)
    page = page[query.offset : query.offset + query.limit]
    found = dict[int, ThreadRow]()
    for start in range(0, len(page), _BY_ID):
        ids = page[start : start + _BY_ID]
        marks = ", ".join("?" * len(ids))
        sql = f"SELECT t.id, {SELECT_THREAD[7:]} WHERE t.id IN ({marks})"
        found |= {row[0]: thread_row(row[1:]) for row in connection.execute(sql, ids).fetchall()}
    return [found[id] for id in page if id in found]


def count_threads(connection: Connection, user_id: str, query: ThreadQuery) -> int:
    """How many threads match."""
    where, values = _conditions(user_id, query)
    if not query.metadata:
        return connection.execute(f"{_COUNT}{where}", values).fetchone()[0]
    return len(_matching(connection, f"{_LIGHT}{where}", values, query))


def _matching(connection: Connection, sql: str, values: list[Any], query: ThreadQuery) -> list[int]:
    """Ids of what matches, in order; pinned ones first when that is wanted."""
    pinned, others = list[int](), list[int]()
    for id, text in connection.execute(sql, values).fetchall():
        if not query.metadata and PINNED not in text:  # most: nothing to look at
            others.append(id)
            continue
        metadata = load_json(text)
        if has_metadata(metadata, query.metadata):
            first = query.pinned_first and metadata.get(PINNED) is True
            (pinned if first else others).append(id)
    return pinned + others


def _conditions(user_id: str, query: ThreadQuery) -> tuple[str, list[Any]]:
    where, values = " WHERE t.user_id = ?", list[Any]([user_id])
    if query.status is not None:
        where += " AND t.status = ?"
        values.append(query.status)
    if query.ids is not None:
        marks = ", ".join("?" * len(query.ids)) or "NULL"
        where += f" AND t.thread_id IN ({marks})"
        values.extend(query.ids)
    for key in query.metadata:
        where += " AND t.metadata LIKE ? ESCAPE '!'"
        values.append(f"%{_escaped(dump_json(key).decode())}:%")
    return where, values


def _escaped(text: str) -> str:
    for sign in "!%_":
        text = text.replace(sign, f"!{sign}")
    return text


def _order(query: ThreadQuery) -> str:
    way = "DESC" if query.descending else "ASC"
    return f" ORDER BY t.{query.sort_by} {way}, t.id {way}"
