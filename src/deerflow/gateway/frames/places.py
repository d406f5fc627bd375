"""Places in a thread's log."""

from __future__ import annotations

from deerflow.agent.context import INPUT
from deerflow.events import Event
from deerflow.storage.protocol import Storage, ThreadRow

SKEW_SECONDS = 5.0
"""How far the clocks of two processes may differ where a run's first event is looked up."""

UNFINISHED = ("pending", "running")
BEGINS = frozenset({"model_started", "tool_started", "run_ended"})


def begins_run(event: Event) -> bool:
    """Whether a reader of the event's run is shown a whole state with it: its input is there."""
    if event.type == "message":
        return event.payload["message"].get("id") == INPUT + event.run_id
    return event.type in BEGINS


async def is_final(storage: Storage, thread_key: str, event: Event, last: int) -> bool:
    """Whether a `run_ended` event is the end of its run, and not one that was gone on after.

    Args:
        storage: log and rows.
        thread_key: the thread.
        event: the event.
        last: seq of the last event that was there when the reader came.
    """
    run = await storage.threads.run(event.run_id)
    if run is None:
        return True
    if run.status in UNFINISHED:
        return False
    after = event.seq if run.attempt > 1 else last
    while after < last:  # it was gone on with: a later end counts
        events = await storage.events.read(thread_key, after=after)
        if any(e.run_id == event.run_id and e.type == "run_ended" for e in events):
            return False
        if not events:
            break
        after = events[-1].seq
    return True


async def beginning(storage: Storage, thread: ThreadRow, created_at: float) -> int:
    """A seq before the first event of a run, found by the times in the log.

    Args:
        storage: the log.
        thread: the thread.
        created_at: of the run, UTC seconds.
    """
    low, high, look = 0, thread.last_seq, 0  # the first run of a thread is found with one look
    while low < high:
        found = await storage.events.read(thread.thread_key, after=look, limit=1)
        if found and found[0].created_at < created_at - SKEW_SECONDS:
            low = found[0].seq
        else:
            high = look
        look = (low + high) // 2
    return low
