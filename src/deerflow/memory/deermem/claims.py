"""Entries that this process holds: none stays claimed by a cancelled caller or on a full disk."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from deerflow.errors import StorageError
from deerflow.storage.protocol import MemoryQueue, QueuedExchange

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Claims:
    """Takes entries and gives them back.

    Args:
        queue: the durable queue.
        clock: UTC seconds.
    """

    def __init__(self, queue: MemoryQueue, clock: Callable[[], float]) -> None:
        self._queue = queue
        self._clock = clock
        self._owed: dict[str, float] = {}

    async def take(self, user_id: str | None, *, force: bool) -> list[QueuedExchange]:
        """The next group; a caller that is cancelled meanwhile leaves nothing claimed.

        Raises:
            StorageError: the queue cannot be read or written.
        """
        await self.pay()
        claim = self._queue.claim(now=self._clock(), user_id=user_id, force=force)
        group, cancelled = await whole(claim)
        if cancelled:
            await whole(self.give_back([entry.entry_id for entry in group], self._clock()))
            raise asyncio.CancelledError
        return group

    async def give_back(self, ids: Sequence[str], due: float) -> None:
        """Give entries back, now or, when the queue cannot be written, before the next claim."""
        try:
            await self._queue.release(ids, due_at=due)
        except StorageError as error:
            logger.warning("memory: entries cannot be given back yet: %s", error)
            self._owed.update(dict.fromkeys(ids, due))

    async def pay(self) -> None:
        """Give back what is owed. Raises StorageError when that still fails."""
        for entry_id, due in list(self._owed.items()):
            await self._queue.release([entry_id], due_at=due)
            self._owed.pop(entry_id, None)


async def whole(work: Awaitable[T]) -> tuple[T, bool]:
    """Come to the end of it even when cancelled; the result, and whether that happened."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    return task.result(), cancelled
