"""Threads of scheduled runs that go with the end of their run."""

from __future__ import annotations

import contextlib
import time
from typing import Protocol

from deerflow.errors import NotFoundError
from deerflow.storage.protocol import Storage

GOES = "started; its thread goes with its run"
GONE = "started; its thread is removed"
LINGER_SECONDS = 5.0
"""For so long readers see the end of a run whose thread goes."""
PAGE = 100
"""Occurrences that one look goes through."""


class Remover(Protocol):
    """What of `Submissions` is used here."""

    async def delete_thread(self, user_id: str, thread_id: str) -> None:
        """Remove a thread."""
        ...


async def remove_ended(
    storage: Storage, submissions: Remover, *, linger: float = LINGER_SECONDS
) -> None:
    """Remove the threads of ended runs that were not to be kept; safe in several processes.

    A run that waits for a human, or whose webhook is still to be called, has not come to its end.
    """
    for row, entry in await storage.schedules.noted(GOES, limit=PAGE):
        run = await storage.threads.run(entry.run_id)
        if run is not None:
            if run.ended_at is None or run.status == "interrupted":
                continue
            calls = await storage.deliveries.of_run(run.run_id)
            waits = any(call.status in ("waiting", "pending") for call in calls)
            if waits or time.time() < run.ended_at + linger:
                continue
            with contextlib.suppress(NotFoundError):  # another process was quicker
                await submissions.delete_thread(row.user_id, entry.thread_id)
        await storage.schedules.settle(row.schedule_id, entry.occurrence, GONE)
