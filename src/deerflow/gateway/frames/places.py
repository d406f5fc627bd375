"""Places in a thread's log."""

from __future__ import annotations

from deerflow.storage.protocol import Storage, ThreadRow

SKEW_SECONDS = 5.0
"""How far the clocks of two processes may differ where a run's first event is looked up."""


async def beginning(storage: Storage, thread: ThreadRow, created_at: float) -> int:
    """A seq before the first event of a run, found by the times in the log.

    Args:
        storage: the log.
        thread: the thread.
        created_at: of the run, UTC seconds.
    """
    low, high = 0, thread.last_seq
    while low < high:
        middle = (low + high) // 2
        found = await storage.events.read(thread.thread_key, after=middle, limit=1)
        if found and found[0].created_at < created_at - SKEW_SECONDS:
            low = found[0].seq
        else:
            high = middle
    return low
