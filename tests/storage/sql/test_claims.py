"""A claim whose caller was cancelled is given back; no statement reads a whole table."""

import asyncio
from typing import Any

import pytest

from deerflow.errors import NotFoundError
from deerflow.storage.protocol import BatchRow, QueuedExchange
from deerflow.storage.sql import approvals, batches, exchanges, spending
from deerflow.storage.sql.claims import claimed
from deerflow.storage.sql.storage import SqliteStorage


async def cancelled(claim: Any) -> None:
    """Cancel a claim that is queued and not answered yet."""
    task = asyncio.create_task(claim)
    await asyncio.sleep(0)  # it runs up to where it waits for the writer
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_items_of_a_cancelled_claim_are_pending_as_before(opened: Any) -> None:
    storage: SqliteStorage = opened()
    key = (await storage.threads.ensure("ann", "t1")).thread_key
    await storage.batches.create(BatchRow("b1", "ann", key, "r1", 3), ["0", "1", "2"])
    for _ in range(20):
        await cancelled(storage.batches.claim("b1", 2))

    found = await storage.batches.claim("b1", 9)
    assert [(item.index, item.attempts) for item in found] == [(0, 1), (1, 1), (2, 1)]
    await storage.close()


async def test_entries_of_a_cancelled_claim_are_free_as_before(opened: Any) -> None:
    storage: SqliteStorage = opened()
    key = (await storage.threads.ensure("ann", "t1")).thread_key
    entry = QueuedExchange("e1", "ann", "t1", key, {}, 1.0)
    await storage.memory_queue.enqueue(entry, debounce=1.0, ceiling=2.0)
    for _ in range(20):
        await cancelled(storage.memory_queue.claim(now=9.0))

    (found,) = await storage.memory_queue.claim(now=9.0)
    assert found.attempts == 1
    await storage.close()


async def test_a_cancelled_claim_that_failed_has_nothing_to_give_back(opened: Any) -> None:
    storage: SqliteStorage = opened()
    given = list[Any]()

    def work(batch: Any) -> list[str]:
        raise NotFoundError("nothing here")

    await cancelled(claimed(storage._writer, work, lambda batch, items: given.append(items)))
    await storage.close()

    assert given == []


def statements() -> list[Any]:
    """Every SQL text of the four stores."""
    found = list[Any]()
    for module in (approvals, batches, exchanges, spending):
        for name, text in vars(module).items():
            if name == "_SELECT" or not isinstance(text, str):  # the beginning of others
                continue
            if text.startswith(("SELECT", "UPDATE", "DELETE")):
                sql = text.format(conditions=" AND q.due_at <= ? AND q.user_id = ?")
                found.append(pytest.param(sql, id=f"{module.__name__.rpartition('.')[2]}.{name}"))
    return found


async def plan(storage: SqliteStorage, sql: str) -> list[str]:
    """How SQLite runs a statement."""

    def query(connection: Any) -> list[str]:
        rows = connection.execute(f"EXPLAIN QUERY PLAN {sql}", (1,) * sql.count("?"))
        return [row[3] for row in rows.fetchall()]

    return await storage._readers.read(query)


@pytest.mark.parametrize("sql", statements())
async def test_statements_use_an_index(opened: Any, sql: str) -> None:
    storage: SqliteStorage = opened()
    steps = await plan(storage, sql)
    await storage.close()

    assert any("USING" in step for step in steps)
    assert not [step for step in steps if step.startswith("SCAN")]


async def test_a_claim_reads_no_more_items_than_it_takes(opened: Any) -> None:
    storage: SqliteStorage = opened()
    steps = await plan(storage, batches._CLAIM)
    await storage.close()

    wanted = "USING COVERING INDEX ix_batch_items_claim (batch=? AND status=?)"
    assert any(wanted in step for step in steps)
    assert not [step for step in steps if "TEMP B-TREE" in step]
