"""The memory that forgets."""

from __future__ import annotations

import pytest

from deerflow.errors import NotFoundError, UsageError
from deerflow.memory.noop import NoopMemoryManager
from deerflow.memory.protocol import Exchange, FlushReport, MemoryDocument


async def test_it_remembers_nothing() -> None:
    memory = NoopMemoryManager()
    await memory.start()
    assert await memory.queue("ann", "key", Exchange("I like tea", "Noted")) == ""
    assert await memory.flush(seconds=1) == FlushReport()
    assert await memory.pending() == 0
    assert await memory.context("ann", "tea") == ""
    assert await memory.load("ann") == MemoryDocument()
    assert await memory.search("ann", "tea") == []
    assert await memory.undo("ann") is None
    assert await memory.clear("ann") is False
    assert (await memory.export("ann"))["facts"] == []
    await memory.close()


async def test_who_wants_to_keep_something_is_told() -> None:
    memory = NoopMemoryManager()
    for attempt in (memory.add("ann", "Likes tea"), memory.take_in("ann", {"facts": []})):
        with pytest.raises(UsageError) as caught:
            await attempt
        assert "memory.manager_class" in caught.value.cure
    for attempt in (memory.change("ann", "f", content="x"), memory.forget("ann", "f")):
        with pytest.raises(NotFoundError):
            await attempt
