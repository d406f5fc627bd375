"""Followers of a log: each gets what is committed in order, none slows the writer."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar
from weakref import WeakSet

from deerflow.events import Event
from deerflow.storage.protocol import Delta, Listener

PAGE = 500
"""Events that a follower reads from the database at once."""
QUEUE = 1000
"""Events that wait for a slow follower before it goes back to reading the database."""
PIECES = 256
"""Deltas that wait for a slow follower before new ones are joined to the last."""

F = TypeVar("F")


class _Follower:
    """What both kinds share: the loop to wake and the end."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._ended = False

    def post(self, call: Callable[..., None], *args: object) -> bool:
        """Run `call` in the follower's loop, from any thread. False when the loop is gone."""
        if self._loop.is_closed():
            return False
        try:
            self._loop.call_soon_threadsafe(call, *args)
        except RuntimeError:  # closed between the two lines
            return False
        return True

    def end(self) -> None:
        """Stop after what is queued (in the follower's loop)."""
        self._ended = True
        self._wake.set()

    async def aclose(self) -> None:
        """Stop now; a follower that is merely dropped is forgotten as well."""
        self.end()

    async def _pause(self) -> None:
        await self._wake.wait()
        self._wake.clear()


class EventFollower(_Follower):
    """Events of one thread with seq > after, once each; ends with the thread or the storage.

    Args:
        read: gives committed events after a seq, at most PAGE.
        after: seq that the reader has already.
    """

    def __init__(self, read: Callable[[int], Awaitable[Sequence[Event]]], after: int) -> None:
        super().__init__()
        self._read = read
        self._cursor = after
        self._queue: deque[Event] = deque()
        self._behind = True
        self._known = after

    def push(self, events: Iterable[Event]) -> None:
        """Take committed events (in the follower's loop)."""
        self._queue.extend(events)
        if len(self._queue) > QUEUE:
            self.look()
            self._queue.clear()
        self._wake.set()

    def look(self) -> None:
        """Somebody else wrote: read the database again (in the follower's loop)."""
        self._behind = True
        self._wake.set()

    def __aiter__(self) -> EventFollower:
        return self

    async def __anext__(self) -> Event:
        while True:
            event = self._take()
            if event is not None:
                return event
            if self._behind:
                await self._catch_up()
            elif self._ended:
                raise StopAsyncIteration
            else:
                await self._pause()

    def _take(self) -> Event | None:
        while self._queue:
            event = self._queue.popleft()
            if self._cursor < event.seq <= max(self._known, self._cursor + 1):
                self._cursor = event.seq
                return event
            if event.seq > self._cursor:  # something is missing in between
                self._queue.clear()
                self._behind = True
        return None

    async def _catch_up(self) -> None:
        self._behind, read = False, False
        try:
            rows = await self._read(self._cursor)
            read = True
        finally:
            self._behind = self._behind or not read
        self._queue.extendleft(reversed(rows))
        if rows:  # a number that is missing before it belongs to a run that was removed
            self._known = rows[-1].seq
        self._behind = self._behind or len(rows) >= PAGE


@dataclass(frozen=True, slots=True)
class Dropped:
    """A message's deltas are gone: it is finished, or will be written anew from offset 0."""

    run_id: str
    message_id: str


class DeltaFollower(_Follower):
    """Deltas of one thread as they are committed; pieces join when the reader is slow."""

    def __init__(self) -> None:
        super().__init__()
        self._queue: deque[Delta] = deque()
        self._known: dict[tuple[str, str], int] = {}

    def push(self, deltas: Iterable[Delta | Dropped]) -> None:
        """Take committed deltas (in the follower's loop); text that it has already is skipped."""
        for delta in deltas:
            message = (delta.run_id, delta.message_id)
            if isinstance(delta, Dropped):
                self._known.pop(message, None)
                continue
            known = self._known.get(message, delta.offset)
            end = delta.offset + len(delta.text)
            if end <= known:
                continue
            self._known[message] = end
            new = delta.text[max(0, known - delta.offset) :]
            self._add(Delta(*message, max(known, delta.offset), new))
        self._wake.set()

    def _add(self, delta: Delta) -> None:
        if len(self._queue) >= PIECES:
            last = self._queue[-1]
            if (last.run_id, last.message_id, last.offset + len(last.text)) == (
                delta.run_id,
                delta.message_id,
                delta.offset,
            ):
                self._queue[-1] = Delta(
                    last.run_id, last.message_id, last.offset, last.text + delta.text
                )
                return
        self._queue.append(delta)

    def __aiter__(self) -> DeltaFollower:
        return self

    async def __anext__(self) -> Delta:
        while not self._queue:
            if self._ended:
                raise StopAsyncIteration
            await self._pause()
        return self._queue.popleft()


class Committed(Protocol):
    """What a committed transaction tells the followers."""

    events: dict[str, list[Event]]
    deltas: dict[str, list[Delta | Dropped]]
    deleted: list[str]
    checkpoint_bytes: int


class _Tap(_Follower):
    """Somebody who hears every commit of this process."""

    def __init__(self, listener: Listener) -> None:
        super().__init__()
        self.listener = listener


class Hub:
    """The followers of this process by thread key, held weakly: dropping one is enough."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: dict[str, WeakSet[EventFollower]] = {}
        self._deltas: dict[str, WeakSet[DeltaFollower]] = {}
        self._taps: tuple[_Tap, ...] = ()

    def listen(self, listener: Listener) -> None:
        """Tell `listener`, in the running loop, of every commit of this process."""
        self._taps = (*self._taps, _Tap(listener))

    def follow_events(self, thread_key: str, follower: EventFollower) -> EventFollower:
        """Register a follower of events."""
        with self._lock:
            self._events.setdefault(thread_key, WeakSet()).add(follower)
        return follower

    def follow_deltas(self, thread_key: str, follower: DeltaFollower) -> DeltaFollower:
        """Register a follower of deltas."""
        with self._lock:
            self._deltas.setdefault(thread_key, WeakSet()).add(follower)
        return follower

    def event_followers(self, thread_key: str) -> list[EventFollower]:
        """Living followers of a thread's events."""
        with self._lock:
            return _living(self._events, thread_key)

    def delta_followers(self, thread_key: str) -> list[DeltaFollower]:
        """Living followers of a thread's deltas."""
        with self._lock:
            return _living(self._deltas, thread_key)

    def keys(self) -> list[str]:
        """Threads of which somebody follows anything."""
        with self._lock:
            followed = dict.fromkeys((*self._events, *self._deltas))
            return [
                key for key in followed if _living(self._events, key) or _living(self._deltas, key)
            ]

    @property
    def watched(self) -> bool:
        """Whether anybody follows anything."""
        with self._lock:
            return any(_living(self._events, key) for key in list(self._events)) or any(
                _living(self._deltas, key) for key in list(self._deltas)
            )

    def publish(self, commit: Committed) -> None:
        """Hand a commit to its followers, from any thread."""
        for key, events in commit.events.items():
            for follower in self.event_followers(key):
                follower.post(follower.push, events)
        for key, deltas in commit.deltas.items():
            for listener in self.delta_followers(key):
                listener.post(listener.push, deltas)
        if self._taps and (commit.events or commit.checkpoint_bytes):
            events = [event for found in commit.events.values() for event in found]
            for tap in self._taps:
                tap.post(tap.listener, events, commit.checkpoint_bytes)
        for key in commit.deleted:
            self.end(key)

    def end(self, thread_key: str | None = None) -> None:
        """End the followers of one thread, or all."""
        with self._lock:
            keys = [thread_key] if thread_key is not None else [*self._events, *self._deltas]
            every = [
                f
                for key in keys
                for f in (*_living(self._events, key), *_living(self._deltas, key))
            ]
        for follower in every:
            follower.post(follower.end)


def _living(table: dict[str, WeakSet[F]], key: str) -> list[F]:
    found = list(table.get(key, ()))
    if not found:
        table.pop(key, None)
    return found
