"""Approvals, batches, queued memories and spending in memory."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import asdict, replace

from deerflow.errors import ConflictError, NotFoundError, ThreadGoneError
from deerflow.storage.encoding import clean_text, copied
from deerflow.storage.inmemory_tables import Tables, Waiting
from deerflow.storage.protocol import (
    ApprovalRow,
    ApprovalStatus,
    BatchItem,
    BatchRow,
    Decision,
    ItemStatus,
    QueuedExchange,
    Spent,
)
from deerflow.storage.ticket import failed_ticket, settled_ticket


class MemoryApprovals:
    """Approvals in memory."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def request(self, row: ApprovalRow) -> ApprovalRow:
        """See Approvals."""
        self._tables.refuse(row.thread_key)
        clean = ApprovalRow(**copied(asdict(row)))
        stored = self._tables.approvals.setdefault((row.user_id, row.approval_id), clean)
        if stored.thread_key != row.thread_key:
            raise ConflictError("An approval with this id belongs to another thread.")
        return stored

    async def get(self, user_id: str, approval_id: str) -> ApprovalRow | None:
        """See Approvals."""
        return self._tables.approvals.get((user_id, approval_id))

    async def list(
        self,
        user_id: str,
        *,
        thread_key: str | None = None,
        status: ApprovalStatus | None = "pending",
        limit: int = 100,
    ) -> list[ApprovalRow]:
        """See Approvals."""
        found = [
            row
            for row in self._oldest_first(thread_key)
            if row.user_id == user_id and status in (None, row.status)
        ]
        return found[:limit]

    async def decide(
        self, user_id: str, approval_id: str, decision: Decision
    ) -> tuple[ApprovalRow, bool]:
        """See Approvals."""
        row = await self.get(user_id, approval_id)
        if row is None:
            raise NotFoundError(f"There is no approval {approval_id!r} here.")
        if row.status != "pending":
            return row, False
        decided = self._write(row, decision)
        return decided, decided.status == decision.status

    async def expire(self, now: float, *, thread_key: str | None = None) -> list[ApprovalRow]:
        """See Approvals."""
        late = [
            row
            for row in self._oldest_first(thread_key)
            if row.status == "pending" and row.expires_at is not None and row.expires_at <= now
        ]
        return [self._write(row, Decision("expired", "expiry", now)) for row in late]

    async def supersede(self, thread_key: str, *, at: float) -> list[ApprovalRow]:
        """See Approvals."""
        pending = [row for row in self._oldest_first(thread_key) if row.status == "pending"]
        return [self._write(row, Decision("superseded", "new message", at)) for row in pending]

    def _oldest_first(self, thread_key: str | None) -> list[ApprovalRow]:
        rows = [r for r in self._tables.approvals.values() if thread_key in (None, r.thread_key)]
        return sorted(rows, key=lambda row: (row.created_at, row.approval_id))

    def _write(self, row: ApprovalRow, decision: Decision) -> ApprovalRow:
        decided = ApprovalRow(**copied(asdict(row.decided(decision))))
        self._tables.approvals[(row.user_id, row.approval_id)] = decided
        return decided


class MemoryBatches:
    """Batches in memory."""

    def __init__(self, tables: Tables, owner: str) -> None:
        self._tables = tables
        self._owner = owner

    async def create(self, row: BatchRow, items: Sequence[str]) -> BatchRow:
        """See Batches."""
        self._tables.refuse(row.thread_key)
        if row.batch_id not in self._tables.batches:
            self._tables.batches[row.batch_id] = BatchRow(**copied(asdict(row)))
            self._tables.items[row.batch_id] = [
                BatchItem(row.batch_id, index, clean_text(item)) for index, item in enumerate(items)
            ]
        stored = self._tables.batches[row.batch_id]
        if stored.thread_key != row.thread_key:
            raise ConflictError("A batch with this id belongs to another thread.")
        return stored

    async def get(self, batch_id: str) -> BatchRow | None:
        """See Batches."""
        return self._tables.batches.get(batch_id)

    async def reopen(self, batch_id: str) -> int:
        """See Batches."""
        items = self._tables.items.get(batch_id, [])
        count = 0
        for index, item in enumerate(items):
            mine = item.owner == self._owner or not self._tables.lives(item.owner)
            if item.status == "waiting" or (item.status == "running" and mine):
                items[index] = replace(item, status="pending", owner="")
                count += 1
        return count

    async def claim(self, batch_id: str, limit: int) -> list[BatchItem]:
        """See Batches."""
        items = self._tables.items.get(batch_id, [])
        free = [item.index for item in items if item.status == "pending"][:limit]
        for index in free:
            item = items[index]
            items[index] = replace(
                item, status="running", attempts=item.attempts + 1, owner=self._owner
            )
        return [items[index] for index in free]

    def settle(
        self, batch_id: str, index: int, status: ItemStatus, result: str | None = None
    ) -> Awaitable[None]:
        """See Batches."""
        items = self._tables.items.get(batch_id)
        if items is None:
            return failed_ticket(ThreadGoneError("The batch's thread was deleted."))
        if not 0 <= index < len(items):
            return failed_ticket(NotFoundError(f"The batch has no item {index}."))
        if items[index].status != "done":
            clean = None if result is None else clean_text(result)
            items[index] = replace(items[index], status=status, result=clean, owner="")
        return settled_ticket(None)

    async def items(self, batch_id: str, *, after: int = -1, limit: int = 1000) -> list[BatchItem]:
        """See Batches."""
        return self._tables.items.get(batch_id, [])[after + 1 : after + 1 + limit]

    async def counts(self, batch_id: str) -> dict[ItemStatus, int]:
        """See Batches."""
        found: dict[ItemStatus, int] = {}
        for item in self._tables.items.get(batch_id, []):
            found[item.status] = found.get(item.status, 0) + 1
        return found


class MemoryExchanges:
    """MemoryQueue in memory."""

    def __init__(self, tables: Tables, owner: str) -> None:
        self._tables = tables
        self._owner = owner

    def enqueue(self, entry: QueuedExchange, *, debounce: float, ceiling: float) -> Awaitable[None]:
        """See MemoryQueue."""
        gone = self._tables.gone(entry.thread_key)
        if gone is not None:
            return gone
        queue = self._tables.exchanges
        if entry.entry_id not in queue:
            clean = replace(entry, payload=copied(entry.payload))
            queue[entry.entry_id] = Waiting(clean, 0.0)
            group = self._free_of(entry)
            times = [w.entry.queued_at for w in group]
            due = min(max(times) + debounce, min(times) + ceiling)
            for waiting in group:
                waiting.due_at = due
        return settled_ticket(None)

    async def claim(
        self, *, now: float, user_id: str | None = None, force: bool = False
    ) -> list[QueuedExchange]:
        """See MemoryQueue."""
        queue = self._tables.exchanges
        for waiting in queue.values():
            if waiting.owner and not self._tables.lives(waiting.owner):
                waiting.owner = ""
        busy = {w.entry.user_id for w in queue.values() if w.owner}
        free = [
            w
            for w in queue.values()
            if not w.owner
            and w.entry.user_id not in busy
            and user_id in (None, w.entry.user_id)
            and (force or w.due_at <= now)
        ]
        if not free:
            return []
        chosen = min(free, key=lambda w: (w.due_at, w.entry.queued_at)).entry
        group = sorted(self._free_of(chosen), key=lambda w: w.entry.queued_at)
        for waiting in group:
            waiting.owner = self._owner
            waiting.entry = replace(waiting.entry, attempts=waiting.entry.attempts + 1)
        return [waiting.entry for waiting in group]

    async def complete(self, entry_ids: Sequence[str]) -> None:
        """See MemoryQueue."""
        for entry_id in entry_ids:
            self._tables.exchanges.pop(entry_id, None)

    async def release(self, entry_ids: Sequence[str], *, due_at: float) -> None:
        """See MemoryQueue."""
        for entry_id in entry_ids:
            waiting = self._tables.exchanges.get(entry_id)
            if waiting is not None:
                waiting.owner, waiting.due_at = "", due_at

    async def pending(self, user_id: str | None = None) -> int:
        """See MemoryQueue."""
        queue = self._tables.exchanges.values()
        return sum(1 for w in queue if user_id in (None, w.entry.user_id))

    async def next_due(self, user_id: str | None = None) -> float | None:
        """See MemoryQueue."""
        queue = self._tables.exchanges.values()
        times = [w.due_at for w in queue if not w.owner and user_id in (None, w.entry.user_id)]
        return min(times, default=None)

    def _free_of(self, entry: QueuedExchange) -> list[Waiting]:
        """Unclaimed entries of the same user and thread."""
        whose = (entry.user_id, entry.thread_key)
        return [
            w
            for w in self._tables.exchanges.values()
            if not w.owner and (w.entry.user_id, w.entry.thread_key) == whose
        ]


class MemorySpending:
    """Spending in memory."""

    def __init__(self) -> None:
        self._days: dict[tuple[str, str], Spent] = {}

    def add(self, user_id: str, day: str, tokens: int, money: dict[str, float]) -> Awaitable[None]:
        """See Spending."""
        money = Spent(tokens, money).money
        before = self._days.get((user_id, day), Spent())
        sums = dict(before.money)
        for currency, amount in money.items():
            sums[currency] = sums.get(currency, 0.0) + amount
        self._days[(user_id, day)] = Spent(before.tokens + tokens, sums)
        return settled_ticket(None)

    def of(self, user_id: str, day: str) -> Awaitable[Spent]:
        """See Spending."""
        return settled_ticket(self._days.get((user_id, day), Spent()))
