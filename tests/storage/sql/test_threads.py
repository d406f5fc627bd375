"""Several storages that make the same thread at once."""

import asyncio
from typing import Any

import pytest

from deerflow.errors import ConflictError
from deerflow.storage.protocol import ThreadRow
from deerflow.storage.sql.storage import SqliteStorage


async def begin(storage: SqliteStorage, thread_id: str, run_id: str) -> str:
    """Run a thread that did not exist a moment ago; its key."""
    thread = ThreadRow.new("ann", thread_id)
    event = ("run_started", {"input": run_id})
    if await storage.threads.open_run(thread, run_id, input={}, config={}, event=event) is None:
        found = await storage.threads.get("ann", thread_id)
        assert found is not None
        thread = found
        await storage.threads.start_run(thread.thread_key, run_id, input={}, config={}, event=event)
    return thread.thread_key


async def test_one_thread_and_one_run_come_out(opened: Any) -> None:
    storages: list[SqliteStorage] = [opened() for _ in range(3)]
    for number in range(20):
        name = f"t{number}"
        tries = [begin(each, name, f"{name}-{i}") for i, each in enumerate(storages)]
        results = await asyncio.gather(*tries, return_exceptions=True)

        (key,) = [result for result in results if isinstance(result, str)]
        assert sum(isinstance(result, ConflictError) for result in results) == 2
        for storage in storages:
            row = await storage.threads.get("ann", name)
            assert row is not None
            assert (row.thread_key, row.status, row.last_seq) == (key, "busy", 1)
            (run,) = await storage.threads.runs(key)
            (event,) = await storage.events.read(key)
            assert event.payload == {"input": run.run_id}
    assert len(await storages[0].threads.list("ann", limit=100)) == 20
    for storage in storages:
        await storage.close()


async def test_a_cancelled_opening_is_whole_or_not_there(opened: Any) -> None:
    storage: SqliteStorage = opened()
    for number in range(20):
        task = asyncio.create_task(begin(storage, f"t{number}", f"r{number}"))
        for _ in range(number % 3):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    rows = await storage.threads.list("ann", limit=100)
    runs = [await storage.threads.runs(row.thread_key) for row in rows]
    await storage.close()

    assert [(row.status, row.last_seq) for row in rows] == [("busy", 1)] * len(rows)
    assert [len(found) for found in runs] == [1] * len(rows)
