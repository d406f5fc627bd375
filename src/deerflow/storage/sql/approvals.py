"""Approvals in SQL: the first decision counts, whoever makes it."""

from __future__ import annotations

from typing import Any

from deerflow.errors import ConflictError, NotFoundError
from deerflow.storage.encoding import dump_json, load_json, pack, unpack
from deerflow.storage.protocol import ApprovalRow, ApprovalStatus, Decision
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.driver import Connection
from deerflow.storage.sql.reader import Readers
from deerflow.storage.sql.writer import Writer

_SELECT = (
    "SELECT a.approval_id, a.user_id, k.thread_key, a.status, a.created_at, a.expires_at,"
    " a.decided_at, a.call, a.decision FROM approvals a JOIN thread_keys k ON k.id = a.thread"
)
_ONE = f"{_SELECT} WHERE a.user_id = ? AND a.approval_id = ?"
_LATE = f"{_SELECT} WHERE a.status = 'pending' AND a.expires_at <= ?"
_PENDING = f"{_SELECT} WHERE a.status = 'pending' AND k.thread_key = ?"
_OLDEST_FIRST = "ORDER BY a.created_at, a.approval_id"
_HOLD = "/*pg FOR UPDATE OF a */"
"""The first decision counts: the second one sees it."""
_INSERT = (
    "INSERT INTO approvals (user_id, approval_id, thread, status, created_at, expires_at,"
    " decided_at, call, decision) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (user_id, approval_id) DO NOTHING"
)
_DECIDE = (
    "UPDATE approvals SET status = ?, decided_at = ?, decision = ?"
    " WHERE user_id = ? AND approval_id = ?"
)
_CALL = (
    "thread_id", "run_id", "namespace", "message_id", "index", "tool", "args", "reason", "default",
)  # fmt: skip
"""Fields of the column `call`."""
_DECISION = ("decided_by", "edited", "note")
"""Fields of the column `decision`, which is NULL while the call waits."""


def _packed(row: ApprovalRow, fields: tuple[str, ...]) -> bytes:
    return pack(dump_json({name: getattr(row, name) for name in fields}))


def _decision(row: ApprovalRow) -> bytes | None:
    return None if row.status == "pending" else _packed(row, _DECISION)


def _row(found: tuple[Any, ...]) -> ApprovalRow:
    call: dict[str, Any] = load_json(unpack(found[7]))
    decision: dict[str, Any] = {} if found[8] is None else load_json(unpack(found[8]))
    return ApprovalRow(
        approval_id=found[0],
        user_id=found[1],
        thread_key=found[2],
        status=found[3],
        created_at=found[4],
        expires_at=found[5],
        decided_at=found[6],
        **call,
        **decision,
    )


def _one(
    connection: Connection, user_id: str, approval_id: str, hold: str = ""
) -> ApprovalRow | None:
    found = connection.execute(f"{_ONE} {hold}", (user_id, approval_id)).fetchone()
    return None if found is None else _row(found)


def _write(connection: Connection, row: ApprovalRow, decision: Decision) -> ApprovalRow:
    decided = row.decided(decision)
    connection.execute(
        _DECIDE,
        (decided.status, decided.decided_at, _decision(decided), row.user_id, row.approval_id),
    )
    return decided


class SqlApprovals:
    """Approvals on the writer's queue."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def request(self, row: ApprovalRow) -> ApprovalRow:
        """See Approvals."""
        call, decision = _packed(row, _CALL), _decision(row)

        def work(batch: Batch) -> ApprovalRow:
            connection, ref = batch.connection, batch.thread(row.thread_key)
            times = (row.created_at, row.expires_at, row.decided_at)
            connection.execute(
                _INSERT,
                (row.user_id, row.approval_id, ref.id, row.status, *times, call, decision),
            )
            stored = _one(connection, row.user_id, row.approval_id)
            if stored is None or stored.thread_key != row.thread_key:
                raise ConflictError("An approval with this id belongs to another thread.")
            return stored

        return await self._writer.submit(work, scope=row.thread_key)

    async def get(self, user_id: str, approval_id: str) -> ApprovalRow | None:
        """See Approvals."""
        return await self._readers.read(lambda c: _one(c, user_id, approval_id))

    async def list(
        self,
        user_id: str,
        *,
        thread_key: str | None = None,
        status: ApprovalStatus | None = "pending",
        limit: int = 100,
    ) -> list[ApprovalRow]:
        """See Approvals."""
        sql, values = f"{_SELECT} WHERE a.user_id = ?", [user_id]
        for column, value in (("k.thread_key", thread_key), ("a.status", status)):
            if value is not None:
                sql += f" AND {column} = ?"
                values.append(value)

        def query(connection: Connection) -> list[ApprovalRow]:
            found = connection.execute(f"{sql} {_OLDEST_FIRST} LIMIT ?", (*values, limit))
            return [_row(row) for row in found.fetchall()]

        return await self._readers.read(query)

    async def decide(
        self, user_id: str, approval_id: str, decision: Decision
    ) -> tuple[ApprovalRow, bool]:
        """See Approvals."""

        def work(batch: Batch) -> tuple[ApprovalRow, bool]:
            found = _one(batch.connection, user_id, approval_id, _HOLD)
            if found is None:
                raise NotFoundError(f"There is no approval {approval_id!r} here.")
            if found.status != "pending":
                return found, False
            decided = _write(batch.connection, found, decision)
            return decided, decided.status == decision.status

        return await self._writer.submit(work)

    async def expire(self, now: float, *, thread_key: str | None = None) -> list[ApprovalRow]:
        """See Approvals."""
        sql, values = _LATE, [now]
        if thread_key is not None:
            sql, values = f"{sql} AND k.thread_key = ?", [now, thread_key]
        return await self._decide_all(sql, values, Decision("expired", "expiry", now), thread_key)

    async def supersede(self, thread_key: str, *, at: float) -> list[ApprovalRow]:
        """See Approvals."""
        decision = Decision("superseded", "new message", at)
        return await self._decide_all(_PENDING, [thread_key], decision, thread_key)

    async def _decide_all(
        self, sql: str, values: list[Any], decision: Decision, scope: str | None
    ) -> list[ApprovalRow]:
        """Decide what the query finds; the writer is not bothered when it finds nothing."""
        sql = f"{sql} {_OLDEST_FIRST}"

        def look(connection: Connection) -> bool:
            return connection.execute(f"{sql} LIMIT 1", values).fetchone() is not None

        def work(batch: Batch) -> list[ApprovalRow]:
            found = batch.connection.execute(f"{sql} {_HOLD}", values).fetchall()
            return [_write(batch.connection, _row(row), decision) for row in found]

        if not await self._readers.read(look, scope=scope):
            return []
        return await self._writer.submit(work, scope=scope or "")
