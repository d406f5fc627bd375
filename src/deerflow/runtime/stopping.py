"""Ends runs on request: asks, waits for the end, and takes back what a rollback removes."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from deerflow.errors import ConflictError
from deerflow.events import Event
from deerflow.runtime.parts import RunParts
from deerflow.storage.protocol import Cancel, RunRow, Storage, ThreadRow
from deerflow.storage.states import is_to_take_back

if TYPE_CHECKING:
    from deerflow.runtime.engine import Engine

LEFT_SECONDS = 2.0
"""Whoever ends a run takes it back within them, unless it has died."""
LOOK = 1.0
"""Seconds between two looks at a row whose end is awaited by its event: a removed run has none."""


async def stop(engine: Engine, parts: RunParts, run: RunRow, action: Cancel) -> RunRow:
    """Ask for the end of a run, wherever it is executed.

    A run that has not begun ends at once; with rollback it is gone when this returns.

    Returns:
        The row as it now is.

    Raises:
        ConflictError: it has ended.
    """
    if run.ended_at is not None:
        raise not_cancellable(run)
    asked = await parts.storage.queue.ask_to_stop(run.run_id, action)
    if asked is None:
        return run  # removed meanwhile
    if asked.ended_at is None:
        await engine.stop(run.run_id)
        return asked
    if not asked.cancel and asked.status != "cancelled":
        raise not_cancellable(asked)  # it ended by itself in between
    if action == "rollback":
        await roll_back(parts, asked)
    await start_next(engine, parts.storage, run.thread_key)
    return asked


async def displace(engine: Engine, parts: RunParts, run: RunRow) -> None:
    """Bring to its end what a new run of its thread asked to stop; it was asked for already."""
    if run.ended_at is None:
        await engine.stop(run.run_id)
    elif is_to_take_back(run):
        await roll_back(parts, run)
        await start_next(engine, parts.storage, run.thread_key)


async def take_back(engine: Engine, parts: RunParts) -> int:
    """Take back what a process left that died between the end of a run and its rollback.

    Nothing of the thread begins before that. Returns how many; safe in any number of processes.
    """
    left = await parts.storage.queue.to_take_back(ended_for=LEFT_SECONDS)
    for run in left:
        await roll_back(parts, run)
        await start_next(engine, parts.storage, run.thread_key)
    return len(left)


async def start_next(engine: Engine, storage: Storage, thread_key: str) -> None:
    """Start the run of a thread that is its turn now, if there is one."""
    following = await storage.queue.next_in(thread_key)
    thread = await storage.threads.by_key(thread_key) if following is not None else None
    if following is not None and thread is not None:
        await engine.start(following, thread.user_id)


async def roll_back(parts: RunParts, run: RunRow) -> None:
    """Take an ended run back: the thread's state is again what it was before it.

    Its checkpoints, events, journal and row go; files that it wrote stay. Idempotent.
    """
    storage = parts.storage
    # checkpoints have the id as a UUID writes it
    await storage.saver.adelete_for_runs([str(uuid.UUID(run.run_id)), run.run_id])
    await storage.queue.remove(run.run_id)


async def ended(
    storage: Storage, thread: ThreadRow, run: RunRow, *, seconds: float | None = None
) -> RunRow:
    """Wait for the end of a run.

    Args:
        storage: the stores.
        thread: its thread, read before the run.
        run: its row.
        seconds: how long at most, None for ever.

    Returns:
        The ended row; when it was removed meanwhile, the row as it was seen last.

    Raises:
        TimeoutError: it has not ended within `seconds`.
    """
    if run.ended_at is not None:
        return run
    follower = aiter(storage.events.follow(thread.thread_key, after=thread.last_seq))
    coming = asyncio.ensure_future(_end_of(follower, run.run_id))
    try:
        async with asyncio.timeout(seconds):
            while True:
                await asyncio.wait({coming}, timeout=LOOK)
                found = await storage.threads.run(run.run_id)
                if found is None:
                    return run
                if found.ended_at is not None:
                    return found
                run = found
                if coming.done():  # it was put back, or the store closes
                    await coming
                    coming = asyncio.ensure_future(_end_of(follower, run.run_id))
    finally:
        coming.cancel()


async def _end_of(follower: AsyncIterator[Event], run_id: str) -> None:
    async for event in follower:
        if event.run_id == run_id and event.type == "run_ended":
            return


def not_cancellable(run: RunRow) -> ConflictError:
    """What is said of a run that has ended; existing clients look for these words."""
    return ConflictError(f"Run {run.run_id} is not cancellable: it has ended ({run.status}).")
