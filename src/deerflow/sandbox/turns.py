"""Who may use a shell now: one command alone, or any number of forks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator


class Turns:
    """A lock with two ways: alone, or together with others that came together."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []
        self._together = 0
        self._alone = False

    @contextlib.asynccontextmanager
    async def taken(self, *, alone: bool) -> AsyncGenerator[None, None]:
        """Wait for the turn and hold it."""
        while self._alone or (alone and self._together):
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future
        self._alone = alone
        self._together += not alone
        try:
            yield
        finally:  # waits for nothing, so that a cancellation cannot leave it half done
            self._alone = False
            self._together -= not alone
            waiting, self._waiting = self._waiting, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)
