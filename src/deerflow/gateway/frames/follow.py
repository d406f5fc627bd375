"""The stream of a run: the log from a place on, then live, as frames for one reader."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from deerflow.agent.record import THINKING
from deerflow.events import Event
from deerflow.gateway.frames.encode import HEARTBEAT, FrameCache, Position, body, frame, position
from deerflow.gateway.frames.inbox import Inbox
from deerflow.gateway.frames.modes import Wanted
from deerflow.gateway.frames.parts import Part, Parts, Rank
from deerflow.gateway.frames.places import UNFINISHED, beginning, begins_run, is_final
from deerflow.gateway.frames.sharing import Same, Sharing
from deerflow.gateway.frames.values import Budget, States
from deerflow.runtime.history import Histories
from deerflow.storage.protocol import Delta, RunRow, Storage, ThreadRow

BEAT_SECONDS = 15.0
"""Without a frame for so long, a comment tells that the connection lives."""
CHUNK = 64 * 1024
"""Bytes that are handed to the server at once."""
CHANGES = frozenset({"title", "todos", "artifacts", "goal"})


@dataclass(frozen=True, slots=True)
class Asked:
    """What a reader asks for.

    Attributes:
        thread: the thread.
        run: the run.
        wanted: its modes.
        after: Last-Event-ID; None, "" or "-1" for everything from the beginning.
        first: a seq before the run's first event, when the caller knows one; None to look it up.
        ends: whether `end` is sent; the stream of a thread goes on with its next run.
    """

    thread: ThreadRow
    run: RunRow
    wanted: Wanted
    after: str | None = None
    first: int | None = None
    ends: bool = True


class Frames:
    """Makes streams of runs.

    Args:
        storage: log, deltas and rows.
        histories: states.
        cache: encoded frames of this process.
    """

    def __init__(self, storage: Storage, histories: Histories, cache: FrameCache) -> None:
        self._storage = storage
        self._cache = cache
        self._states = States(storage, histories, cache)
        self._sharing = Sharing(storage)

    async def follow(self, asked: Asked) -> AsyncGenerator[bytes]:
        """Encoded frames until the run has ended; a comment every 15 s without one.

        Frames of one event come in a fixed order, each with an id that names it, so that a reader
        who comes back with the last one misses nothing and gets nothing twice.
        """
        after = "" if asked.after in (None, "-1", "0") else asked.after or ""
        if after and not await self._known(asked, after):
            yield _gap(asked, await self._last(asked))
            return
        if not after:
            yield frame("metadata", body(_about(asked)))
        run, over = asked.run, asked.run.status not in UNFINISHED
        state = (run.attempt, run.ended_at) if over else ()
        wish = (run.run_id, asked.wanted, asked.ends, asked.first, state)
        same = Same(asked.thread.thread_key, over, wish)
        reading = self._sharing.follow(same, after, lambda place: self._read(asked, place))
        async with aclosing(reading) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _read(self, asked: Asked, after: str) -> AsyncGenerator[bytes]:
        first = asked.first
        if first is None:
            first = await beginning(self._storage, asked.thread, asked.run.created_at)
        place = position(after) or Position(0)
        reader = _Reader(self._storage, self._cache, self._states, asked, place)
        async with aclosing(reader.chunks(first)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _known(self, asked: Asked, after: str) -> bool:
        """Whether the log has a place of this id."""
        found = position(after)
        if found is None:
            return False
        return found.seq <= asked.thread.last_seq or found.seq <= await self._last(asked)

    async def _last(self, asked: Asked) -> int:
        fresh = await self._storage.threads.by_key(asked.thread.thread_key) or asked.thread
        return fresh.last_seq


class _Reader:
    """One reader at one place of the log."""

    def __init__(
        self, storage: Storage, cache: FrameCache, states: States, asked: Asked, after: Position
    ) -> None:
        self._storage = storage
        self._cache = cache
        self._states = states
        self._asked = asked
        self._after = after
        self._key = asked.thread.thread_key
        self._run_id = asked.run.run_id
        self._parts = Parts(asked.wanted, self._run_id, asked.thread.thread_id)
        self._label = asked.wanted.label
        self._shared = "messages" not in asked.wanted  # its frames hang on when the reader came
        self._out: list[bytes] = []
        self._held = 0  # bytes in it
        self._budget = Budget()
        self._cursor = 0
        self._first = 0  # seq of the run's first event
        self._caught = 0  # what was in the log when following began
        self._hole = False  # a piece of the open message is missing
        self._resumed = False
        self._begun = False
        self._changed = False
        self._settled = False
        self._over = False

    async def chunks(self, first: int) -> AsyncGenerator[bytes]:
        """Everything behind the reader's place, in chunks."""
        self._cursor = first
        inbox = Inbox(self._storage, self._key, first)
        try:
            fresh = await self._storage.threads.by_key(self._key)
            self._caught = fresh.last_seq if fresh is not None else 0
            if await self._storage.threads.run(self._run_id) is None:
                await self._look()  # it was removed, and its events with it
            waiting, idle = deque[Event | Delta](), False
            while not self._over:
                if self._out:
                    yield self._taken()
                if not waiting:
                    items = await inbox.take(seconds=BEAT_SECONDS)
                    if items is None:
                        return
                    waiting.extend(items)
                    idle = not items
                await self._work(waiting)
                if not waiting and inbox.empty and not self._over:
                    await self._settle(idle=idle)
            if self._out:
                yield self._taken()
        finally:
            await inbox.close()

    async def _work(self, waiting: deque[Event | Delta]) -> None:
        """Take items until there is a chunk to be sent."""
        while waiting and not self._over and self._held <= CHUNK:
            item = waiting.popleft()
            if isinstance(item, Delta):
                self._delta(item)
            else:
                await self._item(item)

    def _taken(self) -> bytes:
        chunk = b"".join(self._out)
        self._out.clear()
        self._held = 0
        return chunk

    def _frame(self, event: str, payload: Any, id: str = "") -> None:
        self._add(frame(event, body(payload), id))

    def _add(self, data: bytes) -> None:
        self._out.append(data)
        size = len(data)
        self._held += size
        self._budget.since += size

    async def _item(self, item: Event) -> None:
        if item.run_id == self._run_id:
            if not self._first:
                self._first = item.seq
            if item.seq <= self._after.seq:
                self._skip(item)
            else:
                self._resume()
                await self._event(item)
        self._cursor = item.seq
        if item.seq >= self._after.seq:
            self._resume()

    def _resume(self) -> None:
        """The reader's place is reached: what it has of the message that was written there."""
        after = self._after
        if not self._resumed and after.message_id:
            self._parts.resume(after.message_id, after.offset, after.thinking)
        self._resumed = True

    def _skip(self, event: Event) -> None:
        """An event whose frames the reader has: only its meaning for the ones that follow."""
        self._begun = self._begun or begins_run(event)
        self._parts.note(event)

    def _delta(self, delta: Delta) -> None:
        if delta.run_id != self._run_id:
            return
        if self._cursor < self._caught:  # its message is not known yet; read when it is
            self._hole = True
            return
        ident = delta.message_id
        end, text = self._parts.take(ident, delta.offset, delta.text)
        if end < delta.offset:
            self._hole = True
        if not text:
            return
        key = (self._key, ident, self._parts.sent, len(text), self._cursor, self._label)
        cached = self._cache.get(key) if self._shared else None
        if cached is None:
            place = str(_place(self._cursor, self._parts.sent))
            parts = self._parts.piece(ident, text)
            cached = b"".join(
                frame(part.name, body(part.payload), place if part is parts[-1] else "")
                for part in parts
            )
            if self._shared:
                self._cache.put(key, cached)
        if cached:
            self._add(cached)

    async def _event(self, event: Event) -> None:
        if event.type in ("run_ended", "model_retry") and self._parts.writing is not None:
            await self._fill()  # what was written before it stopped
        begins = not self._begun and begins_run(event)
        self._begun = self._begun or begins
        if event.type in CHANGES:
            self._changed = True
        if event.type == "run_ended":
            await self._ended(event)
            return
        skip = self._after.rank if event.seq == self._after.seq + 1 else -1
        if begins and "values" in self._asked.wanted:
            parts = encoded(self._parts.parts(event))
            parts.append((Rank.VALUES, "values", await self._state(event.seq)))
            self._group(event, parts, skip)
        else:
            self._plain(event, skip)

    def _plain(self, event: Event, skip: int) -> None:
        """Frames of an event without a state; all readers of one kind share them."""
        key = (self._key, event.seq, self._label, self._parts.sent, skip)
        cached = self._cache.get(key)
        if cached is None:
            before = len(self._out)
            self._group(event, encoded(self._parts.parts(event)), skip)
            self._cache.put(key, b"".join(self._out[before:]))
            return
        self._parts.note(event)
        if cached:
            self._add(cached)

    def _group(self, event: Event, parts: list[tuple[int, str, bytes]], skip: int) -> None:
        """The frames of an event, which is taken in: all but the last stand before it."""
        before = self._parts.sent
        self._parts.note(event)
        for rank, name, data in parts:
            if rank <= skip:
                continue
            if rank == parts[-1][0]:
                ident = _place(event.seq, self._parts.sent)
            else:
                ident = _place(event.seq - 1, before, rank)
            self._add(frame(name, data, str(ident)))

    async def _ended(self, event: Event) -> None:
        """The end of the run, or of an attempt that somebody goes on with."""
        thread, wanted = self._asked.thread, self._asked.wanted
        final = await is_final(self._storage, self._key, event, self._caught)
        parts = encoded(self._parts.parts(event))
        if final and "values" in wanted:
            state = await self._states.ended(thread, self._run_id, event.seq)
            parts.append((Rank.VALUES, "values", state))
        if final and "checkpoints" in wanted:
            parts.append((Rank.CHECKPOINTS, "checkpoints", await self._states.checkpoint(thread)))
        error = event.payload.get("error")
        if final and error:
            told = {"error": error["code"], "name": error["code"], "message": error["message"]}
            parts.append((Rank.ERROR, "error", body({**told, "cure": error.get("cure", "")})))
        if final and self._asked.ends:
            parts.append((Rank.END, "end", b"null"))
        skip = self._after.rank if event.seq == self._after.seq + 1 else -1
        self._group(event, parts, skip)
        self._over = final

    async def _settle(self, *, idle: bool) -> None:
        """Nothing waits: fill what is missing, tell what has changed, see whether it is over."""
        if self._cursor < self._caught:
            if await self._storage.events.read(self._key, after=self._cursor, limit=1):
                return
            self._cursor = self._caught  # what is missing was removed
        if not self._settled:
            self._settled = True
            writing = self._parts.writing
            self._hole = self._hole or (writing is not None and writing.began <= self._caught)
            await self._look()
        if self._hole and self._parts.writing is not None and not self._over:
            self._hole = False
            await self._fill()
        changed = self._changed and "values" in self._asked.wanted
        if changed and not self._over and self._budget.due():
            self._add(frame("values", await self._state(self._cursor)))
        if idle and not self._out:
            await self._look()
            if not self._over:
                self._out.append(HEARTBEAT)

    async def _fill(self) -> None:
        """Read the open message's pieces from the log."""
        writing = self._parts.writing
        for suffix in (THINKING, "") if writing is not None else ():
            ident = writing.message_id + suffix if writing is not None else ""
            for delta in await self._storage.deltas.read(self._run_id, ident):
                caught, self._caught = self._caught, 0  # it is known now
                self._delta(delta)
                self._caught = caught

    async def _state(self, seq: int) -> bytes:
        thread, first = self._asked.thread, self._first or seq
        if self._asked.first is not None and self._asked.run.attempt:  # it was gone on with
            first = await beginning(self._storage, thread, self._asked.run.created_at) + 1
        state = await self._states.begun(thread, self._run_id, first, seq)
        self._budget.told(len(state))
        self._changed = False
        return state

    async def _look(self) -> None:
        """End when the run is gone, or has ended without a word in the log."""
        run = await self._storage.threads.run(self._run_id)
        if run is not None and run.status in UNFINISHED:
            return
        thread = await self._storage.threads.by_key(self._key)
        if run is None or thread is None or self._cursor >= thread.last_seq:
            if self._asked.ends:
                self._frame("end", None, str(Position(self._cursor)))
            self._over = True


def _about(asked: Asked) -> dict[str, str]:
    return {"run_id": asked.run.run_id, "thread_id": asked.thread.thread_id}


def _place(seq: int, sent: tuple[str, int, int], rank: int = -1) -> Position:
    """Where a reader is that has seen an event and so much of the message being written."""
    name, text, thinking = sent
    return Position(seq, name if text or thinking else "", text, thinking, rank)


def _gap(asked: Asked, last: int) -> bytes:
    payload = {
        "code": "stream_replay_gap",
        "run_id": asked.run.run_id,
        "requested_event_id": asked.after,
        "earliest_available_event_id": "0",
        "latest_available_event_id": str(last),
        "recovery": "reload_durable_state",
    }
    return frame("gap", body(payload))


def encoded(parts: list[Part]) -> list[tuple[int, str, bytes]]:
    """Rank, name and JSON of parts."""
    return [(part.rank, part.name, body(part.payload)) for part in parts]
