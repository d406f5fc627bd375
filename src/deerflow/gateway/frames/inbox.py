"""Events and deltas of a thread in one bounded queue, in the order in which they arrive."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

from deerflow.events import Event
from deerflow.storage.protocol import Delta, Storage

LIMIT = 512
"""Items that wait for a slow reader; behind them the log's followers hold back by themselves."""


class Inbox:
    """What a reader of a thread's stream has not taken yet.

    Two tasks carry items over from the followers of the log; they stop while the queue is full, so
    a slow reader costs a bounded amount of memory and the writer nothing.

    Args:
        storage: the log.
        thread_key: the thread.
        after: seq of the last event that the reader knows.
    """

    def __init__(self, storage: Storage, thread_key: str, after: int) -> None:
        self._items: deque[Event | Delta] = deque()
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        deltas = storage.deltas.follow(thread_key)
        events = storage.events.follow(thread_key, after=after)
        self._tasks = [
            asyncio.create_task(self._carry(deltas)),
            asyncio.create_task(self._carry(events)),
        ]
        self._events = self._tasks[1]

    async def take(self, *, seconds: float) -> list[Event | Delta] | None:
        """What is there, waiting for the first item; [] after so many seconds, None at the end.

        Raises:
            StorageError: the log cannot be read.
        """
        if not self._items and not self._events.done():
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
        found = list(self._items)
        self._items.clear()
        self._room.set()
        if not found and self._events.done():
            if not self._events.cancelled() and (error := self._events.exception()) is not None:
                raise error
            return None
        return found

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return not self._items

    async def close(self) -> None:
        """Stop following."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _carry(self, follower: AsyncIterator[Any]) -> None:
        try:
            async for item in follower:
                self._items.append(item)
                self._wake.set()
                if len(self._items) >= LIMIT:
                    self._room.clear()
                    await self._room.wait()
        finally:
            self._wake.set()
