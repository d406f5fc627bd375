"""Runs and threads are found by their owner alone."""

from __future__ import annotations

import pytest

from deerflow.errors import NotFoundError
from deerflow.runtime.lookup import Lookup
from deerflow.storage.inmemory import InMemoryStorage
from deerflow.storage.protocol import NewRun, ThreadRow


async def two(storage: InMemoryStorage) -> ThreadRow:
    """A thread of ann's with two runs that wait."""
    thread = await storage.threads.ensure("ann", "t")
    for name in ("r1", "r2"):
        await storage.queue.submit(thread, NewRun(name, {}, strategy="enqueue"), new=False)
    return thread


async def test_runs_are_paged_and_chosen_by_status() -> None:
    storage = InMemoryStorage()
    lookup, thread = Lookup(storage), await two(storage)
    assert [row.run_id for row in await lookup.runs("ann", "t")] == ["r2", "r1"]
    assert [row.run_id for row in await lookup.runs("ann", "t", limit=1, offset=1)] == ["r1"]
    assert await lookup.runs("ann", "t", status="success") == []
    found = await lookup.find("ann", "r1")
    assert (found[0].thread_key, found[1].run_id) == (thread.thread_key, "r1")
    await storage.close()


async def test_nobody_else_finds_them() -> None:
    storage = InMemoryStorage()
    lookup, thread = Lookup(storage), await two(storage)
    await storage.threads.ensure("ann", "other")
    for call in (
        lookup.thread("bob", "t"),
        lookup.runs("bob", "t"),
        lookup.find("bob", "r1"),
        lookup.run("bob", "t", "r1"),
        lookup.run("ann", "other", "r1"),
        lookup.run("ann", "t", "r3"),
        lookup.find("ann", "r3"),
        lookup.wait(thread.thread_key, "r3"),
        lookup.wait("unknown", "r1"),
    ):
        with pytest.raises(NotFoundError):
            await call
    await storage.close()
