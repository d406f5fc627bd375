"""The SQL storage: its stores on one writer and a few readers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from deerflow.storage.checkpoints.saver import DeltaSaver
from deerflow.storage.checkpoints.untouched import Untouched
from deerflow.storage.follow import Hub
from deerflow.storage.owner import this_owner
from deerflow.storage.protocol import (
    Accounts,
    Approvals,
    Batches,
    Blobs,
    Deliveries,
    DeltaLog,
    Documents,
    EventLog,
    Expiry,
    Journal,
    Listener,
    MemoryQueue,
    RunQueue,
    Schedules,
    Spending,
    StorageKind,
    Threads,
    Workers,
)
from deerflow.storage.sql.accounts import SqlAccounts
from deerflow.storage.sql.approvals import SqlApprovals
from deerflow.storage.sql.batches import SqlBatches
from deerflow.storage.sql.blobs import SqlBlobs
from deerflow.storage.sql.deliveries import SqlDeliveries
from deerflow.storage.sql.deltas import SqlDeltas
from deerflow.storage.sql.documents import SqlDocuments
from deerflow.storage.sql.driver import Database, SqliteFile
from deerflow.storage.sql.events import SqlEvents
from deerflow.storage.sql.exchanges import SqlExchanges
from deerflow.storage.sql.expiry import SqlExpiry
from deerflow.storage.sql.items import SqlItems
from deerflow.storage.sql.journal import SqlJournal
from deerflow.storage.sql.notifier import Bridge, Notifier, Polling
from deerflow.storage.sql.queue import SqlRunQueue
from deerflow.storage.sql.reader import THREADS, Readers
from deerflow.storage.sql.schedules import SqlSchedules
from deerflow.storage.sql.spending import SqlSpending
from deerflow.storage.sql.threads import SqlThreads
from deerflow.storage.sql.workers import SqlWorkers
from deerflow.storage.sql.writer import Writer

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.store.base import BaseStore


class SqlStorage:
    """All stores on one database.

    Args:
        kind: of the database.
        database: its schema up to date.
        notifier: how processes hear of each other's commits.
        owner: who runs and claims what is started here; this process when empty.
        readers: how many read at once.
    """

    def __init__(
        self,
        kind: StorageKind,
        database: Database,
        notifier: Notifier,
        *,
        owner: str = "",
        readers: int = THREADS,
    ) -> None:
        self.kind: StorageKind = kind
        self._hub = hub = Hub()
        self._writer = writer = Writer(database, hub, notifier)
        self._readers = Readers(database, writer, readers)
        self._open(owner or this_owner(), eager=notifier.poll_seconds is None)

    def _open(self, owner: str, *, eager: bool) -> None:
        writer, readers, hub = self._writer, self._readers, self._hub
        self._untouched = untouched = Untouched()
        self.events: EventLog = SqlEvents(writer, readers, hub)
        self.deltas: DeltaLog = SqlDeltas(writer, readers, hub, eager=eager)
        self.journal: Journal = SqlJournal(writer, readers)
        self.threads: Threads = SqlThreads(writer, readers, owner, untouched)
        self.blobs: Blobs = SqlBlobs(writer, readers)
        self.approvals: Approvals = SqlApprovals(writer, readers)
        self.batches: Batches = SqlBatches(writer, readers, owner)
        self.memory_queue: MemoryQueue = SqlExchanges(writer, readers, owner)
        self.spending: Spending = SqlSpending(writer)
        self.schedules: Schedules = SqlSchedules(writer, readers)
        self.accounts: Accounts = SqlAccounts(writer, readers)
        self.documents: Documents = SqlDocuments(writer, readers)
        self.workers: Workers = SqlWorkers(writer, readers)
        self.queue: RunQueue = SqlRunQueue(writer, readers)
        self.deliveries: Deliveries = SqlDeliveries(writer, readers)
        self.expiry: Expiry = SqlExpiry(writer, readers, untouched)
        self.saver: BaseCheckpointSaver[int] = DeltaSaver(writer, readers, untouched)

    def items(self, user_id: str) -> BaseStore:
        """See Storage."""
        return SqlItems(self._writer, self._readers, user_id)

    def listen(self, listener: Listener) -> None:
        """See Storage."""
        self._hub.listen(listener)

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


class SqliteStorage(SqlStorage):
    """Everything in one SQLite file.

    Args:
        path: the file, its schema up to date (see `schema.prepare`).
        owner: who runs and claims what is started here; this process when empty.
        bridge: how processes hear of each other's commits; by looking at the file when None.
    """

    def __init__(self, path: Path, *, owner: str = "", bridge: Bridge | None = None) -> None:
        file, look = SqliteFile(path), Polling()
        super().__init__("sqlite", file, bridge(file, look) if bridge else look, owner=owner)
