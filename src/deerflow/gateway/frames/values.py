"""States for `values` and `checkpoints` frames, as a reader at one place of the log sees them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from deerflow.agent.context import INPUT
from deerflow.gateway.frames.encode import FrameCache, body
from deerflow.gateway.wire import checkpoint_dict, message_dict, values_dict
from deerflow.runtime.history import Histories, Snapshot
from deerflow.storage.protocol import RunRow, Storage, ThreadRow

PAGE = 500
CHANGE_SECONDS = 5.0
"""Whole states in mid-run are at least so far apart."""


@dataclass(slots=True)
class Budget:
    """When a reader may be sent a whole state again: what it costs must not grow with the run.

    Attributes:
        since: bytes that were sent since the last one.
        size: bytes of the last one.
        at: when it was sent, monotonic seconds.
    """

    since: int = 0
    size: int = 0
    at: float = field(default_factory=time.monotonic)

    def due(self) -> bool:
        """The last is 5 s old, and twice as many bytes have gone out since as it had."""
        return time.monotonic() - self.at >= CHANGE_SECONDS and self.since >= 2 * self.size

    def told(self, size: int) -> None:
        """A whole state of so many bytes is sent."""
        self.since, self.size, self.at = 0, size, time.monotonic()


class States:
    """Whole states of threads on the wire.

    Args:
        storage: log and rows.
        histories: states.
        cache: shared by all readers: one state is read and encoded once.
    """

    def __init__(self, storage: Storage, histories: Histories, cache: FrameCache) -> None:
        self._storage = storage
        self._histories = histories
        self._cache = cache

    async def begun(self, thread: ThreadRow, run_id: str, first: int, seq: int) -> bytes:
        """The state before a run, and what the run has written up to event `seq`.

        Args:
            thread: its thread.
            run_id: the run.
            first: seq of its first event.
            seq: of the newest event that counts.
        """
        key = ("values", thread.thread_key, run_id, seq)
        found = self._cache.get(key)
        if found is not None:
            return found
        run = await self._storage.threads.run(run_id)
        values = values_dict(await self._before(thread, run), thread)
        logged = await self._logged(thread, run_id, first, seq)
        told = {message["id"] for message in logged}
        earlier = until(values["messages"], INPUT + run_id)
        values["messages"] = [m for m in earlier if m.get("id") not in told] + logged
        return self._cache.put(key, body(values))

    async def ended(self, thread: ThreadRow, run_id: str, seq: int) -> bytes:
        """The state that a run has left; later runs are not in it."""
        key = ("ended", thread.thread_key, run_id, seq)
        found = self._cache.get(key)
        if found is not None:
            return found
        fresh = await self._storage.threads.by_key(thread.thread_key) or thread
        snapshot = await self._histories.state(fresh)
        return self._cache.put(
            key, body(with_interrupts(of_run(snapshot, fresh, run_id), snapshot))
        )

    async def checkpoint(self, thread: ThreadRow) -> bytes:
        """The newest state as LangGraph's `checkpoints` mode has it."""
        snapshot = await self._histories.state(thread)
        ident = snapshot.checkpoint_id if snapshot else None
        parent = snapshot.parent_checkpoint_id if snapshot else None
        return body(
            {
                "config": {"configurable": checkpoint_dict(thread.thread_id, ident)},
                "parent_config": {"configurable": checkpoint_dict(thread.thread_id, parent)},
                "values": values_dict(snapshot, thread),
                "metadata": snapshot.metadata if snapshot else {},
                "next": list(snapshot.next) if snapshot else [],
                "tasks": list(snapshot.tasks) if snapshot else [],
            }
        )

    async def _before(self, thread: ThreadRow, run: RunRow | None) -> Snapshot | None:
        origin = run.input.get("checkpoint_id") if run is not None else None
        return await self._histories.state(thread, cast("str | None", origin))

    async def _logged(
        self, thread: ThreadRow, run_id: str, first: int, seq: int
    ) -> list[dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        after = first - 1
        while after < seq:
            events = await self._storage.events.read(thread.thread_key, after=after, limit=PAGE)
            for event in events:
                if event.seq > seq:
                    break
                if event.run_id == run_id and event.type == "message":
                    message = message_dict(event.payload["message"])
                    found[str(message["id"])] = message
            if not events:
                break
            after = events[-1].seq
        return list(found.values())


def until(messages: Sequence[dict[str, Any]], anchor: str) -> list[dict[str, Any]]:
    """Messages before the one with this id; all when it is not there."""
    for index, message in enumerate(messages):
        if message.get("id") == anchor:
            return list(messages[:index])
    return list(messages)


def of_run(snapshot: Snapshot | None, thread: ThreadRow, run_id: str) -> dict[str, Any]:
    """Public values with the messages up to the end of a run."""
    values = values_dict(snapshot, thread)
    messages: list[dict[str, Any]] = values["messages"]
    ids = [str(message.get("id")) for message in messages]
    own = INPUT + run_id
    if own in ids:
        start = ids.index(own) + 1
        later = (n for n in range(start, len(ids)) if ids[n].startswith(INPUT))
        end = next((n for n in later if messages[n]["type"] == "human"), len(ids))
        values["messages"] = messages[:end]
    return values


def with_interrupts(values: dict[str, Any], snapshot: Snapshot | None) -> dict[str, Any]:
    """Values with `__interrupt__`, when calls wait for a human."""
    if snapshot is not None and snapshot.interrupts:
        return {**values, "__interrupt__": list(snapshot.interrupts)}
    return values
