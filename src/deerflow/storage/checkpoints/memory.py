"""Checkpoints in memory: LangGraph's own saver, with integer versions and what it lacks."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.memory import InMemorySaver

from deerflow.storage.checkpoints.address import Address, run_of
from deerflow.storage.checkpoints.async_only import AsyncOnlySaver

_NONE = ("empty", b"")


class MemorySaver(AsyncOnlySaver):
    """Checkpoints in memory.

    Args:
        refuse: raises ThreadGoneError for a key that is retired.
    """

    def __init__(self, refuse: Callable[[str], None] = lambda key: None) -> None:
        super().__init__()
        self._inner = InMemorySaver()
        self._refuse = refuse
        self._version = 0

    def get_next_version(self, current: int | None, channel: None) -> int:
        """Versions are unique in this saver, so branches never share a value."""
        self._version = max(self._version, current or 0) + 1
        return self._version

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See BaseCheckpointSaver."""
        return self._inner.get_tuple(config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """See BaseCheckpointSaver."""
        for found in self._inner.list(config, filter=filter, before=before, limit=limit):
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See BaseCheckpointSaver. Raises ThreadGoneError."""
        self._refuse(Address.of(config).thread_key)
        run_id = run_of(config, metadata)
        if run_id is not None:
            metadata = {**metadata, "run_id": run_id}
        return self._inner.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """See BaseCheckpointSaver. Raises ThreadGoneError."""
        self._refuse(Address.of(config).thread_key)
        self._inner.put_writes(config, writes, task_id, task_path)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See BaseCheckpointSaver."""
        return self._inner.get_delta_channel_history(config=config, channels=channels)

    async def adelete_thread(self, thread_id: str) -> None:
        """See BaseCheckpointSaver."""
        self._inner.delete_thread(thread_id)

    def forget_children(self, thread_id: str) -> None:
        """Remove what stands in another namespace than the lead's."""
        inner = self._inner
        for ns in [ns for ns in inner.storage.get(thread_id, {}) if ns]:
            del inner.storage[thread_id][ns]
        held: dict[Any, Any]
        for held in (inner.writes, inner.blobs):
            for key in [key for key in held if key[0] == thread_id and key[1]]:
                del held[key]

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """See BaseCheckpointSaver. Ancestors that other checkpoints' deltas need stay."""
        for thread_id in list(self._inner.storage):
            for ns in list(self._inner.storage[thread_id]):
                self._drop(
                    thread_id,
                    ns,
                    lambda metadata: metadata.get("run_id") in run_ids,
                )

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """See BaseCheckpointSaver."""
        self._refuse(target_thread_id)
        inner = self._inner
        if source_thread_id not in inner.storage:
            return
        inner.storage[target_thread_id] = copy.deepcopy(inner.storage[source_thread_id])
        for (thread, ns, checkpoint), writes in list(inner.writes.items()):
            if thread == source_thread_id:
                inner.writes[(target_thread_id, ns, checkpoint)] = dict(writes)
        for (thread, ns, channel, version), blob in list(inner.blobs.items()):
            if thread == source_thread_id:
                inner.blobs[(target_thread_id, ns, channel, version)] = blob

    def cut(self, thread_id: str, head: str) -> None:
        """Remove what came after a state; ids are in the order of their making."""
        inner = self._inner
        for rows in inner.storage.get(thread_id, {}).values():
            for id in [id for id in rows if id > head]:
                del rows[id]
        for key in [k for k in inner.writes if k[0] == thread_id and k[2] >= head]:
            del inner.writes[key]

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """See BaseCheckpointSaver. Ancestors that the newest checkpoint's deltas need stay."""
        for thread_id in thread_ids:
            if strategy == "delete":
                self._inner.delete_thread(thread_id)
                continue
            for ns in list(self._inner.storage.get(thread_id, {})):
                self._drop(thread_id, ns, lambda metadata: True, keep_newest=True)

    def _drop(
        self,
        thread_id: str,
        ns: str,
        doomed: Callable[[Mapping[str, Any]], bool],
        *,
        keep_newest: bool = False,
    ) -> None:
        rows = self._inner.storage[thread_id][ns]
        serde = self._inner.serde
        gone = {id for id, row in rows.items() if doomed(serde.loads_typed(row[1]))}
        alive = sorted(set(rows) - gone) or (sorted(rows)[-1:] if keep_newest else [])
        gone -= set(alive)
        for id in alive:
            gone -= self._needed(thread_id, ns, id)
        for id in gone:
            del rows[id]
            self._inner.writes.pop((thread_id, ns, id), None)

    def _needed(self, thread_id: str, ns: str, checkpoint_id: str) -> set[str]:
        """Ancestors from which the delta channels of this checkpoint are rebuilt."""
        rows, inner = self._inner.storage[thread_id][ns], self._inner
        metadata = inner.serde.loads_typed(rows[checkpoint_id][1])
        missing = set(metadata.get("counters_since_delta_snapshot") or ())
        needed: set[str] = set()
        parent = rows[checkpoint_id][2]
        while parent in rows and missing:
            needed.add(parent)
            versions = inner.serde.loads_typed(rows[parent][0])["channel_versions"]
            missing = {
                channel
                for channel in missing
                if inner.blobs.get((thread_id, ns, channel, versions.get(channel)), _NONE)[0]
                == "empty"
            }
            parent = rows[parent][2]
        return needed
