"""Claims: what a caller has taken for itself, given back when it never heard of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from deerflow.storage.owner import WORKER, is_alive, is_gone
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.transactions import Work
from deerflow.storage.sql.writer import Writer

T = TypeVar("T")


async def claimed(
    writer: Writer,
    work: Work[list[T]],
    give_back: Callable[[Batch, list[T]], None],
    *,
    scope: str = "",
) -> list[T]:
    """What the operation took; `scope` is the thread that it is alone with, if any.

    A caller that is cancelled while it waits never learns what it has: that is given back, queued
    behind the claim.
    """
    taken: list[T] = []

    def remembered(batch: Batch) -> list[T]:
        taken.clear()  # it may run twice
        taken.extend(work(batch))
        return list(taken)

    ticket = writer.submit(remembered, scope=scope, fenced=False)

    def undo(batch: Batch) -> None:
        if taken and not (ticket.done and ticket.error is not None):
            give_back(batch, taken)

    try:
        return await ticket
    except asyncio.CancelledError:
        writer.submit(undo, scope=scope, fenced=False)
        raise


def is_living(batch: Batch, owner: str) -> bool:
    """Whether a process runs, or a worker's lease holds."""
    if not owner.startswith(WORKER):
        return is_alive(owner)
    row = batch.connection.execute(
        f"SELECT process FROM workers WHERE worker_id = ? AND expires_at > {batch.dialect.now}",  # noqa: S608
        (owner,),
    ).fetchone()
    return row is not None and not is_gone(row[0])


def dead_owners(batch: Batch, sql: str, values: tuple[Any, ...] = ()) -> list[str]:
    """Owners that the query names and that no longer live."""
    rows = batch.connection.execute(sql, values).fetchall()
    return [owner for (owner,) in rows if not is_living(batch, owner)]
