"""Claims: what a caller has taken for itself, given back when it never heard of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from deerflow.storage.owner import is_alive
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.driver import Connection
from deerflow.storage.sql.transactions import Work
from deerflow.storage.sql.writer import Writer

T = TypeVar("T")


async def claimed(
    writer: Writer, work: Work[list[T]], give_back: Callable[[Batch, list[T]], None]
) -> list[T]:
    """What the operation took.

    A caller that is cancelled while it waits never learns what it has: that is given back, queued
    behind the claim.
    """
    taken: list[T] = []

    def remembered(batch: Batch) -> list[T]:
        taken.clear()  # it may run twice
        taken.extend(work(batch))
        return list(taken)

    ticket = writer.submit(remembered)

    def undo(batch: Batch) -> None:
        if taken and not (ticket.done and ticket.error is not None):
            give_back(batch, taken)

    try:
        return await ticket
    except asyncio.CancelledError:
        writer.submit(undo)
        raise


def dead_owners(connection: Connection, sql: str, values: tuple[Any, ...] = ()) -> list[str]:
    """Owners that the query names and that no longer live."""
    rows = connection.execute(sql, values).fetchall()
    return [owner for (owner,) in rows if not is_alive(owner)]
