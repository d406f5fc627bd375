"""Readers who want the same frames of the same log share one reading of it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable
from dataclasses import dataclass

from deerflow.events import Event
from deerflow.storage.protocol import Storage, ThreadRow

RETAINED = 1024 * 1024
"""Bytes that one reading keeps behind its newest chunk for readers who lag or come later."""
ALTOGETHER = 16 * 1024 * 1024
"""Bytes that all readings keep behind their newest chunks."""
EARLY = 64 * 1024
"""A reading of a run that is not over takes readers from the beginning until it has come so far:
behind that they get the finished messages at once instead of all their pieces."""
_NEVER = 2**62


@dataclass(frozen=True, slots=True)
class Same:
    """What readers must have in common to share a reading.

    Attributes:
        thread_key: the thread; nobody can have the key of a deleted one.
        over: whether the run had ended when the reader came.
        wish: run and options, everything else that frames hang on.
    """

    thread_key: str
    over: bool
    wish: Hashable


@dataclass(slots=True)
class _Held:
    """Bytes that the readings of one `Sharing` keep together."""

    size: int = 0


@dataclass(slots=True)
class _Place:
    """Where a reader is: the number of its next chunk, and what it has of that already."""

    chunk: int = 0
    skip: int = 0


class _Reading:
    """One reading of a log, as fast as its first reader takes it.

    Args:
        source: its chunks, each with whole frames.
        begins: Last-Event-ID that it began behind, "" at the beginning.
        over: see Same.
        held: counts what it keeps.
    """

    def __init__(
        self, source: AsyncGenerator[bytes], begins: str, held: _Held, *, over: bool
    ) -> None:
        self.readers = 0
        self._source = source
        self._begins = begins
        self._over = over
        self._held = held
        self._chunks = deque[bytes]()
        self._first = 0  # number of the oldest chunk that is kept
        self._size = 0
        self._ended = False
        self._deleted = False
        self._fetching: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[ThreadRow | None] | None = None

    def place(self, after: str) -> _Place | None:
        """Where a reader goes on who has everything up to an id; None when it cannot here."""
        if self._ended and not self._over:
            return None  # the run may have been gone on with
        if after == self._begins and not self._first and (self._over or self._size <= EARLY):
            return _Place()
        wanted = b"\nid: %b\n\n" % after.encode()
        for back, chunk in enumerate(reversed(self._chunks), 1) if after else ():
            at = chunk.rfind(wanted)
            if at >= 0:
                last = back == 1 and at + len(wanted) == len(chunk)
                number = self._first + len(self._chunks) - back
                return None if last and self._ended else _Place(number, at + len(wanted))
        return None

    def lost(self, place: _Place) -> bool:
        """Whether the reader's next chunk is no longer kept, though the thread is there."""
        return place.chunk < self._first and not self._deleted

    async def take(self, place: _Place) -> bytes | None:
        """The reader's next chunk; None at the end, or when it is `lost`.

        Raises:
            DeerFlowError: the log cannot be read; every reader who comes to this place is told.
        """
        while not self._deleted and place.chunk >= self._first:
            number = place.chunk - self._first
            if number < len(self._chunks):
                chunk, skip = self._chunks[number], place.skip
                place.chunk, place.skip = place.chunk + 1, 0
                if skip < len(chunk):
                    return chunk[skip:] if skip else chunk
            elif self._ended:
                return None
            else:
                await self._more()
        return None

    async def guard(self, storage: Storage, thread_key: str) -> None:
        """Several read: forget everything as soon as the thread is deleted, or was before.

        Raises:
            StorageError: the database failed.
        """
        if self._watching is None:
            follower = storage.events.follow(thread_key, after=_NEVER)
            self._watching = asyncio.create_task(self._watch(follower))
            self._checking = asyncio.create_task(storage.threads.by_key(thread_key))
        if self._checking is not None:
            await asyncio.wait({self._checking})
            if self._checking.result() is None:
                self._forget()

    async def _watch(self, follower: AsyncIterator[Event]) -> None:
        async for _ in follower:
            pass
        self._forget()

    def _forget(self) -> None:
        self._deleted = True
        self._drop()

    async def close(self) -> None:
        """Stop reading and forget what is kept."""
        every = (self._fetching, self._watching, self._checking)
        tasks = [task for task in every if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._source.aclose()
        self._drop()

    async def _more(self) -> None:
        """Wait for the next chunk, which one task reads for all who wait."""
        fetching = self._fetching
        if fetching is None:
            fetching = self._fetching = asyncio.create_task(self._fetch())
        await asyncio.wait({fetching})
        fetching.result()
        if self._fetching is fetching:
            self._fetching = None

    async def _fetch(self) -> None:
        chunk = await anext(self._source, None)
        if chunk is None:
            self._ended = True
            return
        self._chunks.append(chunk)
        self._count(len(chunk))
        newest = len(chunk)
        while self._size - newest > RETAINED or (
            self._held.size > ALTOGETHER and len(self._chunks) > 1
        ):
            self._count(-len(self._chunks.popleft()))
            self._first += 1

    def _count(self, size: int) -> None:
        self._size += size
        self._held.size += size

    def _drop(self) -> None:
        self._first += len(self._chunks)
        self._chunks.clear()
        self._count(-self._size)


class Sharing:
    """The readings of this process.

    A reader at the head of one drives it, so that nothing is read before somebody has room for it;
    one who falls too far behind goes on in another.

    Args:
        storage: where threads are.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._held = _Held()
        self._readings: dict[Same, list[_Reading]] = {}

    @property
    def held(self) -> int:
        """Bytes that are kept for all readers together."""
        return self._held.size

    async def follow(
        self, same: Same, after: str, read: Callable[[str], AsyncGenerator[bytes]]
    ) -> AsyncGenerator[bytes]:
        """Chunks of whole frames behind an id, until the stream ends.

        Args:
            same: what is read.
            after: id of the last frame that the reader has, "" for none.
            read: begins a reading behind an id.

        Raises:
            DeerFlowError: the log cannot be read.
        """
        lost = True
        while lost:
            reading, place = self._join(same, after, read)
            try:
                if reading.readers > 1:
                    await reading.guard(self._storage, same.thread_key)
                while (chunk := await reading.take(place)) is not None:
                    after = last_id(chunk) or after
                    yield chunk
                lost = reading.lost(place)
            finally:
                await self._leave(same, reading)

    def _join(
        self, same: Same, after: str, read: Callable[[str], AsyncGenerator[bytes]]
    ) -> tuple[_Reading, _Place]:
        readings = self._readings.setdefault(same, [])
        for reading in readings:
            place = reading.place(after)
            if place is not None:
                reading.readers += 1
                return reading, place
        reading = _Reading(read(after), after, self._held, over=same.over)
        reading.readers = 1
        readings.append(reading)
        return reading, _Place()

    async def _leave(self, same: Same, reading: _Reading) -> None:
        reading.readers -= 1
        if reading.readers:
            return
        readings = self._readings[same]
        readings.remove(reading)
        if not readings:
            del self._readings[same]
        await reading.close()


def last_id(chunk: bytes) -> str:
    """The id of the last frame of a chunk that has one, "" when none has."""
    at = chunk.rfind(b"\nid: ")
    return chunk[at + 5 : chunk.index(b"\n", at + 5)].decode() if at >= 0 else ""
