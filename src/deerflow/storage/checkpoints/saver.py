"""The checkpoint saver: delta channels, thinned snapshots, one queue with events and journal."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT

from deerflow.storage.checkpoints.address import Address, run_of
from deerflow.storage.checkpoints.async_only import AsyncOnlySaver
from deerflow.storage.checkpoints.chain import Chain, Chains, Write, numbered
from deerflow.storage.checkpoints.closings import closes
from deerflow.storage.checkpoints.histories import histories_of
from deerflow.storage.checkpoints.openings import Openings
from deerflow.storage.checkpoints.pruning import prune_work
from deerflow.storage.checkpoints.retention import copy_work, drop_work, keys_of_runs
from deerflow.storage.checkpoints.rows import Row, Rows, Values
from deerflow.storage.checkpoints.serde import CompactSerde
from deerflow.storage.checkpoints.storing import Put, put_work, writes_work
from deerflow.storage.checkpoints.untouched import Untouched
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.driver import Connection
from deerflow.storage.sql.reader import Readers
from deerflow.storage.sql.threads import delete_checkpoints
from deerflow.storage.sql.writer import Writer

_PAGE = 100
_AWAITED = {ERROR, INTERRUPT}
"""Channels whose writes are durable when `aput_writes` returns: they end a run."""


class DeltaSaver(AsyncOnlySaver):
    """LangGraph checkpoints on the writer's queue.

    LangGraph's `thread_id` is our thread key. `aput_writes` queues and returns (writes of an
    interrupt or error excepted); `aput` returns when the checkpoint is durable, and with it all
    that was queued before: writes, events, journal. No part of the config goes into the metadata,
        the run id excepted. Async only.

    Args:
        untouched: threads without anything stored.
        values: where large channel values are read from, the database when None.
    """

    def __init__(
        self,
        writer: Writer,
        readers: Readers,
        untouched: Untouched,
        values: Values | None = None,
    ) -> None:
        serde = CompactSerde()
        super().__init__(serde=serde)
        self._rows = Rows(serde, values)
        self._writer = writer
        self._readers = readers
        self._untouched = untouched
        self._chains = Chains()
        self._openings = Openings()

    # --- writing ---

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint durably; one that opens or closes a run is queued only.

        See Openings and `closings`.

        Raises:
            StorageError: it, or something of this thread that was queued before, could not be
                stored.
            ThreadGoneError: the thread was deleted.
        """
        parent = Address.of(config)
        at = Address(parent.thread_key, parent.ns, checkpoint["id"])
        chain = self._chains.get(at.thread_key, at.ns, parent.checkpoint_id)
        if chain is None and not parent.checkpoint_id:
            chain = Chain()
        held: Mapping[str, str] = chain.holders if chain else {}
        packed = self._rows.pack(checkpoint, metadata, new_versions, held)
        thin = frozenset(c for c in packed.large if chain and chain.thinnable(c, metadata))
        put = Put(at, parent.checkpoint_id, run_of(config, metadata), packed, thin)
        closing = closes(config, checkpoint)
        later = self._openings.holds(at, metadata) or closing
        work = put_work(put, self._rows)
        self._untouched.discard(at.thread_key)
        ticket = self._writer.submit(work, scope=at.thread_key, guarded=not later)
        if chain is not None:
            chain.advance(at.checkpoint_id, checkpoint["channel_values"], metadata, packed.holders)
            self._chains.put(at.thread_key, at.ns, chain)
        if closing:
            self._chains.rest(at.thread_key, at.ns)
        if later:
            return at.config()
        stored = False
        try:
            await ticket
            stored = True
        finally:
            if not stored:
                self._chains.drop(at.thread_key)
        return at.config()

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Queue a task's writes; a failure is raised by the thread's next `aput`.

        Raises:
            StorageError: writes of an interrupt or an error could not be stored.
        """
        at = Address.of(config)
        found = numbered(writes, task_id, task_path)
        chain = self._chains.get(at.thread_key, at.ns, at.checkpoint_id)
        if chain is not None:
            chain.record(found)
        work = writes_work(at, task_id, task_path, found, self._rows)
        self._untouched.discard(at.thread_key)
        ticket = self._writer.submit(work, scope=at.thread_key)
        if any(channel in _AWAITED for channel, _ in writes):
            await ticket

    # LangGraph looks at this signature once a run; made here, it costs nothing there.
    aput_writes.__signature__ = inspect.signature(aput_writes)  # pyright: ignore[reportFunctionMemberAccess]

    # --- reading ---

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that the config names, or the newest one."""
        at = Address.of(config)
        if at.thread_key in self._untouched:
            return None
        seen = self._chains.seen(at.thread_key, at.ns)
        newest = seen[0]
        head, known = (newest.head, newest.snapshots()) if newest else ("", {})

        def query(connection: Connection) -> tuple[CheckpointTuple, Row, list[Write]] | None:
            row = self._rows.find(connection, at)
            if row is None:
                return None
            writes = self._rows.writes(connection, at, row)
            kept = known if row.checkpoint_id == head else {}
            return self._rows.tuple_of(connection, at, row, writes, kept), row, writes

        found = await self._readers.read(query, scope=at.thread_key)
        if found is None:
            return None
        result, row, writes = found
        chain = self._chains.peek(at.thread_key, at.ns, row.checkpoint_id)
        if chain is not None and self._chains.unchanged(at.thread_key, at.ns, seen):
            chain.load(writes, row.holders)
        return result

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Seed and writes of delta channels, from memory when this process used it last."""
        at = Address.of(config)
        known = self._chains.peek(at.thread_key, at.ns, at.checkpoint_id)
        if known is not None:
            found = known.history(channels)
            if found is not None:
                return found

        seen = self._chains.seen(at.thread_key, at.ns)

        def query(connection: Connection) -> tuple[Row, list[Write], Chain] | None:
            row = self._rows.find(connection, at)
            if row is None:
                return None
            histories = histories_of(self._rows, connection, at, row, channels)
            chain = Chain(row.checkpoint_id, complete=False, histories=histories)
            return row, self._rows.writes(connection, at, row), chain

        loaded = await self._readers.read(query, scope=at.thread_key)
        if loaded is None:
            return {channel: {"writes": []} for channel in channels}
        row, writes, chain = loaded
        chain.load(writes, row.holders)
        if self._chains.unchanged(at.thread_key, at.ns, seen):
            self._chains.put(at.thread_key, at.ns, chain)
        return chain.history(channels) or {}

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Checkpoints, newest first; see BaseCheckpointSaver."""
        scope = str(config.get("configurable", {}).get("thread_id")) if config else ""
        listing = self._rows.listing(config, before)
        given, offset = 0, 0
        while limit is None or given < limit:
            start = offset

            def query(connection: Connection) -> list[CheckpointTuple]:
                return listing(connection, start, _PAGE)  # noqa: B023  # runs before the next turn

            page = await self._readers.read(query, scope=scope)
            for found in page:
                metadata: Mapping[str, Any] = found.metadata
                if all(metadata.get(key) == value for key, value in (filter or {}).items()):
                    if limit is not None and given >= limit:
                        return
                    given += 1
                    yield found
            offset += _PAGE
            if len(page) < _PAGE:
                return

    # --- retention ---

    async def adelete_thread(self, thread_id: str) -> None:
        """Remove a thread's checkpoints and writes; its key stays usable."""

        def work(batch: Batch) -> None:
            row = batch.connection.execute(
                "SELECT id FROM thread_keys WHERE thread_key = ?", (thread_id,)
            ).fetchone()
            if row is not None:
                delete_checkpoints(batch.connection, row[0])

        self._untouched.discard(thread_id)
        await self._writer.submit(work, scope=thread_id)
        self._chains.drop(thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints of runs; those that other checkpoints' deltas need stay."""
        wanted = set(run_ids)
        keys = await self._readers.read(lambda c: keys_of_runs(c, wanted), scope="")
        for key in keys:
            await self._writer.submit(
                drop_work(
                    self._rows,
                    key,
                    lambda rows: {r.checkpoint_id for r in rows if r.run_id in wanted},
                ),
                scope=key,
            )
            self._chains.drop(key)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints and writes of a thread, and its references to blobs."""
        self._untouched.discard(target_thread_id)
        await self._writer.submit(
            copy_work(source_thread_id, target_thread_id), scope=target_thread_id
        )
        self._chains.drop(target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep the newest checkpoints, made whole, or with "delete" nothing.

        A thread whose run is being executed is left as it is.
        """
        for thread_id in thread_ids:
            if strategy == "delete":
                await self.adelete_thread(thread_id)
                continue
            work = prune_work(self._rows, thread_id)
            await self._writer.submit(work, scope=thread_id)
            self._chains.drop(thread_id)
