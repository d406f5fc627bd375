"""Retention: removes threads that nobody has used for `runtime.retention_days`."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import Callable

from deerflow.runtime.parts import RunParts

logger = logging.getLogger(__name__)

DAY = 86_400.0
PAGE = 50
"""Threads that are asked for at once."""


class Retention:
    """Removes what has outlived its time; any number of processes may do so at the same time.

    Args:
        parts: stores, folders and configuration; a reload is heard at the next sweep.
        clock: UTC seconds.
    """

    def __init__(self, parts: RunParts, *, clock: Callable[[], float] = time.time) -> None:
        self._parts = parts
        self._clock = clock

    async def sweep(self) -> int:
        """Remove threads with their folders, and the journal of runs that nobody goes on with.

        Returns:
            How many threads this process removed; 0 without a configured time.

        Raises:
            StorageError: the database failed; the next sweep goes on.
        """
        days = self._parts.config.runtime.retention_days
        if days is None:
            return 0
        before = self._clock() - days * DAY
        expiry, count, found = self._parts.storage.expiry, 0, True
        while found:  # what another process removes meanwhile is not found again
            found = await expiry.threads(before, limit=PAGE)
            for row in found:
                if await expiry.remove(row.thread_key, before):
                    count += 1
                    root = self._parts.folders(row.user_id, row.thread_key).root.parent
                    await asyncio.to_thread(shutil.rmtree, root, True)
        await expiry.forget(before)
        if count:
            logger.info("%d threads were not used for %d days and are removed", count, days)
        return count
