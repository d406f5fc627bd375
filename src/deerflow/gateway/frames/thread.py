"""The stream of a thread: that of its runs, one after the other, without an end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass

from deerflow.events import Event
from deerflow.gateway.frames.encode import HEARTBEAT, position
from deerflow.gateway.frames.follow import BEAT_SECONDS, Asked, Frames
from deerflow.gateway.frames.modes import Wanted
from deerflow.storage.protocol import RunRow, Storage, ThreadRow

Each = Callable[[RunRow, AsyncGenerator[bytes]], AsyncGenerator[bytes]]
"""What is made of the frames of a run before they are sent."""


@dataclass(frozen=True, slots=True)
class Following:
    """How a thread is followed.

    Attributes:
        thread: the thread.
        wanted: modes of each run.
        after: Last-Event-ID: everything behind it; None begins with what runs now.
        since: a seq, the same as a number.
        run_id: begin with this run, whatever it is at.
        ends: whether each run's `end` is sent.
    """

    thread: ThreadRow
    wanted: Wanted
    after: str | None = None
    since: int | None = None
    run_id: str | None = None
    ends: bool = False


class ThreadFrames:
    """Makes streams of threads.

    Args:
        storage: the log.
        frames: streams of runs.
    """

    def __init__(self, storage: Storage, frames: Frames) -> None:
        self._storage = storage
        self._frames = frames

    async def follow(self, how: Following, each: Each | None = None) -> AsyncGenerator[bytes]:
        """Frames of what runs now, then of every further run; a comment every 15 s without one."""
        thread = await self._storage.threads.by_key(how.thread.thread_key) or how.thread
        place = position(how.after) if how.after else None
        cursor = place.seq if place is not None else how.since
        after = how.after if place is not None else None
        if after is None and how.since is not None:
            after = str(how.since)
        run = await self._first_run(thread, how, cursor)
        cursor = thread.last_seq if cursor is None else min(cursor, thread.last_seq)
        done = set[str]()
        if run is not None:
            done.add(run.run_id)
            asked = Asked(thread, run, how.wanted, after, ends=how.ends)
            async for chunk in self._through(asked, each):
                yield chunk
        async for event in self._begun(thread, cursor):
            if event is None:
                yield HEARTBEAT
            elif event.run_id and event.run_id not in done:
                done.add(event.run_id)
                row = await self._storage.threads.run(event.run_id)
                if row is None:
                    continue
                asked = Asked(thread, row, how.wanted, None, event.seq - 1, ends=how.ends)
                async for chunk in self._through(asked, each):
                    yield chunk

    async def _begun(self, thread: ThreadRow, after: int) -> AsyncGenerator[Event | None]:
        """Events behind a place, as they come; None after 15 s without one."""
        follower = aiter(self._storage.events.follow(thread.thread_key, after=after))
        coming: asyncio.Task[Event] | None = None
        try:
            while True:
                coming = coming or asyncio.create_task(_next(follower))
                if not (await asyncio.wait({coming}, timeout=BEAT_SECONDS))[0]:
                    yield None
                    continue
                event, coming = await coming, None
                yield event
        except StopAsyncIteration:
            return  # the thread was deleted
        finally:
            if coming is not None:
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)

    async def _first_run(
        self, thread: ThreadRow, how: Following, cursor: int | None
    ) -> RunRow | None:
        """The run that the reader is in: the one behind its place, or the one that runs now."""
        threads = self._storage.threads
        if how.run_id is not None:
            return await threads.run(how.run_id)
        if cursor is None:
            return await threads.active_run(thread.thread_key)
        for event in await self._storage.events.read(thread.thread_key, after=cursor):
            run = await threads.run(event.run_id) if event.run_id else None
            if run is not None:
                return run
        return await threads.active_run(thread.thread_key)

    async def _through(self, asked: Asked, each: Each | None) -> AsyncGenerator[bytes]:
        async with aclosing(self._frames.follow(asked)) as frames:
            chunks = frames if each is None else each(asked.run, frames)
            async for chunk in chunks:
                yield chunk


async def _next(follower: AsyncIterator[Event]) -> Event:
    return await anext(follower)
