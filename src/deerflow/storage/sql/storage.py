"""The SQL storage: its stores on one writer and a few readers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from deerflow.storage.checkpoints.saver import DeltaSaver
from deerflow.storage.checkpoints.untouched import Untouched
from deerflow.storage.follow import Hub
from deerflow.storage.owner import this_owner
from deerflow.storage.protocol import (
    Approvals,
    Batches,
    Blobs,
    DeltaLog,
    EventLog,
    Journal,
    MemoryQueue,
    Spending,
    StorageKind,
    Threads,
)
from deerflow.storage.sql.approvals import SqlApprovals
from deerflow.storage.sql.batches import SqlBatches
from deerflow.storage.sql.blobs import SqlBlobs
from deerflow.storage.sql.deltas import SqlDeltas, look
from deerflow.storage.sql.events import SqlEvents
from deerflow.storage.sql.exchanges import SqlExchanges
from deerflow.storage.sql.journal import SqlJournal
from deerflow.storage.sql.reader import Readers
from deerflow.storage.sql.spending import SqlSpending
from deerflow.storage.sql.threads import SqlThreads
from deerflow.storage.sql.writer import Writer

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver


class SqliteStorage:
    """Everything in one SQLite file.

    Args:
        path: the file, its schema up to date (see `schema.prepare`).
        owner: who runs and claims what is started here; this process when empty.
    """

    kind: StorageKind = "sqlite"

    def __init__(self, path: Path, *, owner: str = "") -> None:
        owner = owner or this_owner()
        self._hub = hub = Hub()
        self._writer = writer = Writer(path, hub, lambda connection: look(hub, connection))
        self._readers = readers = Readers(path, writer)
        untouched = Untouched()
        self.events: EventLog = SqlEvents(writer, readers, hub)
        self.deltas: DeltaLog = SqlDeltas(writer, readers, hub)
        self.journal: Journal = SqlJournal(writer, readers)
        self.threads: Threads = SqlThreads(writer, readers, owner, untouched)
        self.blobs: Blobs = SqlBlobs(writer, readers)
        self.approvals: Approvals = SqlApprovals(writer, readers)
        self.batches: Batches = SqlBatches(writer, readers, owner)
        self.memory_queue: MemoryQueue = SqlExchanges(writer, readers, owner)
        self.spending: Spending = SqlSpending(writer)
        self.saver: BaseCheckpointSaver[int] = DeltaSaver(writer, readers, untouched)

    async def flush(self) -> None:
        """See Storage. Raises the first failure of a write that nobody awaited."""
        await self._writer.flush()

    async def close(self) -> None:
        """See Storage. Raises like `flush`, but only after everything is released."""
        try:
            await self._writer.finish()
        finally:
            await self._readers.close()  # before the writer: the last connection tidies the file
            await self._writer.close()
            self._hub.end()
