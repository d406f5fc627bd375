"""What this process knows of a thread's newest checkpoint, to load it without its history.

A chain is only believed for the checkpoint id that it was built for: ids are unique and ancestors
    do not change, so
another process that went on in between is noticed by the id that `aget_tuple` reads from the
database.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, cast

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    CheckpointMetadata,
    DeltaChannelHistory,
    PendingWrite,
    writes_sort_key,
)
from langgraph.types import Overwrite

from deerflow.storage.checkpoints.serde import DeltaSnapshot

CHAINS = 64
"""Threads kept; a chain holds the messages of its thread (100 turns are about 0.5 MB)."""
RESTING = 12
"""Of those, threads whose run has ended: the next one may come, and costs a read without it."""

COUNTERS = "counters_since_delta_snapshot"


@dataclass(frozen=True, slots=True)
class Write:
    """One stored write of a task."""

    path: str
    task_id: str
    index: int
    channel: str
    value: Any

    @property
    def pending(self) -> PendingWrite:
        """As LangGraph reads it."""
        return (self.task_id, self.channel, self.value)


def in_order(writes: Iterable[Write]) -> list[Write]:
    """Writes of one step in the order in which they were applied."""
    return sorted(writes, key=lambda write: writes_sort_key(write.path, write.task_id, write.index))


def merged(old: Iterable[Write], new: Iterable[Write]) -> dict[tuple[str, int], Write]:
    """Both by (task, index): a regular write stays as first stored, a special one is replaced."""
    found = {(write.task_id, write.index): write for write in old}
    for write in new:
        key = (write.task_id, write.index)
        if write.index < 0 or key not in found:
            found[key] = write
    return found


def numbered(writes: Sequence[tuple[str, Any]], task_id: str, path: str) -> list[Write]:
    """Writes of a task with their index: position, or LangGraph's number of special ones."""
    return [
        Write(path, task_id, WRITES_IDX_MAP.get(channel, index), channel, value)
        for index, (channel, value) in enumerate(writes)
    ]


def delta_channels(metadata: CheckpointMetadata, values: Mapping[str, Any]) -> set[str]:
    """Names of the delta channels that a checkpoint shows."""
    counters = metadata.get(COUNTERS) or {}
    return {*counters, *(k for k, value in values.items() if isinstance(value, DeltaSnapshot))}


def _overwrites(value: Any) -> bool:
    """Whether a write replaces the channel's value instead of being reduced into it."""
    return isinstance(value, Overwrite) or (
        isinstance(value, dict) and "__overwrite__" in cast("dict[str, Any]", value)
    )


@dataclass(slots=True, eq=False)
class Chain:
    """The newest checkpoint of one thread and namespace.

    Attributes:
        head: its id, "" before the first.
        complete: True when every delta channel is known from the root on.
        histories: per delta channel what leads to head's value.
        pending: writes stored on head, by (task, index).
        resumed: head had pending writes when it was loaded.
        holders: channel → id of the checkpoint that holds head's (large) value.
        changes: how often this process has written to it: what was read meanwhile is older.
    """

    head: str = ""
    complete: bool = True
    histories: dict[str, DeltaChannelHistory] = field(
        default_factory=dict[str, DeltaChannelHistory]
    )
    pending: dict[tuple[str, int], Write] = field(default_factory=dict[tuple[str, int], Write])
    resumed: bool = False
    holders: dict[str, str] = field(default_factory=dict[str, str])
    changes: int = 0

    def record(self, writes: Iterable[Write]) -> None:
        """Writes were put on head."""
        self.pending = merged(self.pending.values(), writes)
        self.changes += 1

    def load(self, writes: Iterable[Write], holders: dict[str, str]) -> None:
        """Head was read from the database."""
        self.pending = merged((), writes)
        self.resumed = bool(self.pending)
        self.holders = holders

    def snapshots(self) -> dict[str, DeltaSnapshot]:
        """Delta channels whose whole value at head is at hand."""
        found: dict[str, DeltaSnapshot] = {}
        for channel, known in self.histories.items():
            seed = known.get("seed")
            if isinstance(seed, DeltaSnapshot) and not known["writes"]:
                found[channel] = frozen(seed)
        return found

    def thinnable(self, channel: str, metadata: CheckpointMetadata) -> bool:
        """Whether the next checkpoint's snapshot says nothing that head and its writes do not say.

        LangGraph forces a snapshot where replaying the stored writes would give something else (a
        branch, a resume over foreign writes, an Overwrite, the first input); such a snapshot must
        never be dropped.
        """
        writes = [write for write in self.pending.values() if write.channel == channel]
        return (
            bool(writes)
            and channel in self.histories
            and not self.resumed
            and metadata.get("source") in ("loop", "input")
            and not any(_overwrites(write.value) for write in writes)
        )

    def advance(
        self,
        head: str,
        values: Mapping[str, Any],
        metadata: CheckpointMetadata,
        holders: dict[str, str],
    ) -> None:
        """A child of head was put."""
        writes = in_order(self.pending.values())
        for channel in delta_channels(metadata, values) | set(self.histories):
            if channel in values:
                value = values[channel]
                if isinstance(value, DeltaSnapshot):
                    value = frozen(value)
                self.histories[channel] = {"writes": [], "seed": value}
            elif channel in self.histories or self.complete:
                history = self.histories.setdefault(channel, {"writes": []})
                history["writes"].extend(w.pending for w in writes if w.channel == channel)
        self.head, self.pending, self.resumed, self.holders = head, {}, False, holders
        self.changes += 1

    def history(self, channels: Sequence[str]) -> dict[str, DeltaChannelHistory] | None:
        """What leads to head's value of the channels, None when one is unknown."""
        if not self.complete and any(channel not in self.histories for channel in channels):
            return None
        found: dict[str, DeltaChannelHistory] = {}
        for channel in channels:
            known = self.histories.get(channel, {"writes": []})
            entry: DeltaChannelHistory = {"writes": list(known["writes"])}
            if "seed" in known:
                seed = known["seed"]
                entry["seed"] = frozen(seed) if isinstance(seed, DeltaSnapshot) else seed
            found[channel] = entry
        return found


def frozen(snapshot: DeltaSnapshot) -> DeltaSnapshot:
    """A copy that later changes of the list leave alone; messages never change in place."""
    return DeltaSnapshot(copy(snapshot.value))


class Chains:
    """The chains of the threads that were used last."""

    def __init__(self) -> None:
        self._chains: OrderedDict[tuple[str, str], Chain] = OrderedDict()
        self._resting: OrderedDict[tuple[str, str], None] = OrderedDict()

    def get(self, thread_key: str, ns: str, head: str) -> Chain | None:
        """The chain when it stands at head; a chain that stands elsewhere is dropped."""
        chain = self._chains.get((thread_key, ns))
        if chain is None:
            return None
        if chain.head != head:
            del self._chains[(thread_key, ns)]
            return None
        self._chains.move_to_end((thread_key, ns))
        self._resting.pop((thread_key, ns), None)
        return chain

    def peek(self, thread_key: str, ns: str, head: str) -> Chain | None:
        """The chain when it stands at head."""
        chain = self._chains.get((thread_key, ns))
        return chain if chain is not None and chain.head == head else None

    def seen(self, thread_key: str, ns: str) -> tuple[Chain | None, int]:
        """The chain and its changes, for `unchanged` after a read of the database."""
        chain = self._chains.get((thread_key, ns))
        return chain, chain.changes if chain is not None else 0

    def unchanged(self, thread_key: str, ns: str, seen: tuple[Chain | None, int]) -> bool:
        """Whether nobody wrote to the chain, or put another one, since `seen`."""
        return self.seen(thread_key, ns) == seen

    def put(self, thread_key: str, ns: str, chain: Chain) -> None:
        """Keep a chain."""
        self._chains[(thread_key, ns)] = chain
        self._chains.move_to_end((thread_key, ns))
        self._resting.pop((thread_key, ns), None)
        while len(self._chains) > CHAINS:
            self._chains.popitem(last=False)

    def rest(self, thread_key: str, ns: str) -> None:
        """The thread's run has ended: from now on its chain is one of RESTING."""
        self._resting[(thread_key, ns)] = None
        self._resting.move_to_end((thread_key, ns))
        while len(self._resting) > RESTING:
            self._chains.pop(self._resting.popitem(last=False)[0], None)

    def drop(self, thread_key: str | None = None, ns: str | None = None) -> None:
        """Forget one namespace, one thread, or all."""
        for key in list(self._chains):
            if thread_key in (None, key[0]) and ns in (None, key[1]):
                del self._chains[key]
