"""Accounts in SQL."""

from __future__ import annotations

from typing import Any

from deerflow.errors import ConflictError
from deerflow.storage.accounts import (
    ATTEMPTS_KEPT_SECONDS,
    AuditRow,
    TokenKind,
    TokenRow,
    UserRow,
    signed_in,
)
from deerflow.storage.encoding import dump_json, load_json, pack, unpack
from deerflow.storage.sql.batch import Batch
from deerflow.storage.sql.driver import Connection
from deerflow.storage.sql.reader import Readers
from deerflow.storage.sql.writer import Writer

_USER = "u.user_id, u.email, u.password, u.role, u.created_at, u.active, u.data"
_KEY = (
    "t.token_id, t.user_id, t.kind, t.hash, t.name, t.created_at, t.expires_at, t.used_at, t.data"
)
_FIELDS = 9
_USERS = f"SELECT {_USER} FROM users u"  # noqa: S608
_KEYS = f"SELECT {_KEY} FROM tokens t"  # noqa: S608
_ADD_USER = (
    "INSERT INTO users (user_id, email, password, role, created_at, active, data)"
    " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_CHANGE_USER = (
    "UPDATE users SET email = ?, password = ?, role = ?, created_at = ?, active = ?, data = ?"
    " WHERE user_id = ?"
)
_LINKED = (
    f"{_USERS} JOIN identities i ON i.user_id = u.user_id WHERE i.provider = ? AND i.subject = ?"
)
_LINK = (
    "INSERT INTO identities (provider, subject, user_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
)
_ADD = (
    "INSERT INTO tokens (token_id, user_id, kind, hash, name, created_at, expires_at, used_at,"
    " data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
_EXPIRED = (
    "DELETE FROM tokens WHERE id IN"
    " (SELECT id FROM tokens WHERE expires_at <= ? ORDER BY id LIMIT 100)"
)
_SIGNED_IN = (
    f"SELECT {_KEY}, {_USER}"  # noqa: S608
    " FROM tokens t LEFT JOIN users u ON u.user_id = t.user_id"
    " WHERE t.hash = ?"
)
_TAKE = (
    "DELETE FROM tokens WHERE hash = ? AND (expires_at IS NULL OR expires_at > ?) RETURNING"
    " token_id, user_id, kind, hash, name, created_at, expires_at, used_at, data"
)
_ATTEMPT = "INSERT INTO login_attempts (subject, at) VALUES (?, ?)"
_ATTEMPTS = "SELECT count(*) FROM login_attempts WHERE subject = ? AND at >= ?"
_FORGET = (
    "DELETE FROM login_attempts"
    " WHERE at < ? AND id IN (SELECT id FROM login_attempts ORDER BY id LIMIT 100)"
)
"""A hundred of the oldest per new one: the table never grows for long, no login waits for it."""
_NOTE = "INSERT INTO audit (at, user_id, action, target, address, data) VALUES (?, ?, ?, ?, ?, ?)"
_AUDIT = "SELECT at, user_id, action, target, address, data FROM audit"


def _user(found: tuple[Any, ...]) -> UserRow:
    return UserRow(*found[:5], active=bool(found[5]), data=load_json(unpack(found[6])))


def _token(found: tuple[Any, ...]) -> TokenRow:
    token_id, user_id, kind, hash, *rest, data = found
    return TokenRow(token_id, user_id, kind, bytes(hash), *rest, data=load_json(unpack(data)))


def _data(value: dict[str, Any]) -> bytes:
    return pack(dump_json(value))


def _email_taken(connection: Connection, row: UserRow) -> bool:
    sql = "SELECT 1 FROM users WHERE email = ? AND user_id <> ?"
    return connection.execute(sql, (row.email.lower(), row.user_id)).fetchone() is not None


_TAKEN = "There is an account with this e-mail address already."


class SqlAccounts:
    """Accounts on the writer's queue.

    Reads wait for nothing that is queued: every write here is awaited by its caller.
    """

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def add_user(self, row: UserRow, *, first: bool = False) -> None:
        """See Accounts."""
        fields = (row.user_id, row.email.lower(), row.password, row.role, row.created_at)
        values = (*fields, int(row.active), _data(row.data))

        def work(batch: Batch) -> None:
            connection = batch.connection
            if first:
                found = connection.execute("SELECT 1 FROM users WHERE role = 'admin' LIMIT 1")
                if found.fetchone() is not None:
                    raise ConflictError("There is an administrator already.")
            if connection.execute(_ADD_USER, values).rowcount == 0:
                taken = _email_taken(connection, row)
                raise ConflictError(
                    _TAKEN if taken else "There is an account with this id already."
                )

        await self._writer.submit(work)

    async def user(self, user_id: str) -> UserRow | None:
        """See Accounts."""
        return await self._one_user(f"{_USERS} WHERE u.user_id = ?", user_id)

    async def by_email(self, email: str) -> UserRow | None:
        """See Accounts."""
        return await self._one_user(f"{_USERS} WHERE u.email = ?", email.lower())

    async def users(self, *, limit: int = 1000, offset: int = 0) -> list[UserRow]:
        """See Accounts."""
        sql = f"{_USERS} ORDER BY u.created_at, u.user_id LIMIT ? OFFSET ?"
        return [_user(row) for row in await self._all(sql, limit, offset)]

    async def change_user(self, row: UserRow) -> None:
        """See Accounts."""
        fields = (row.email.lower(), row.password, row.role, row.created_at)
        values = (*fields, int(row.active), _data(row.data), row.user_id)

        def work(batch: Batch) -> None:
            if _email_taken(batch.connection, row):
                raise ConflictError(_TAKEN)
            batch.connection.execute(_CHANGE_USER, values)

        await self._writer.submit(work)

    async def has_admin(self) -> bool:
        """See Accounts."""
        sql = "SELECT 1 FROM users WHERE role = 'admin' AND active = 1 LIMIT 1"
        return bool(await self._all(sql))

    async def link(self, provider: str, subject: str, user_id: str) -> None:
        """See Accounts."""
        await self._write(_LINK, provider, subject, user_id)

    async def linked(self, provider: str, subject: str) -> UserRow | None:
        """See Accounts."""
        return await self._one_user(_LINKED, provider, subject)

    async def add_token(self, row: TokenRow) -> None:
        """See Accounts."""
        names = (row.token_id, row.user_id, row.kind, row.hash, row.name)
        times = (row.created_at, row.expires_at, row.used_at)

        def work(batch: Batch) -> None:
            batch.connection.execute(_EXPIRED, (row.created_at,))
            if batch.connection.execute(_ADD, (*names, *times, _data(row.data))).rowcount == 0:
                raise ConflictError("There is such a token already.")

        await self._writer.submit(work)

    async def token(self, hash: bytes, *, now: float) -> tuple[TokenRow, UserRow | None] | None:
        """See Accounts."""
        rows = await self._all(_SIGNED_IN, hash)
        if not rows:
            return None
        found = rows[0]
        known = found[_FIELDS] is not None
        user = _user(found[_FIELDS:]) if known else None
        return signed_in(_token(found[:_FIELDS]), user, now=now)

    async def tokens(self, user_id: str, kind: TokenKind) -> list[TokenRow]:
        """See Accounts."""
        sql = f"{_KEYS} WHERE t.user_id = ? AND t.kind = ? ORDER BY t.created_at, t.token_id"
        return [_token(row) for row in await self._all(sql, user_id, kind)]

    async def use_token(self, token_id: str, at: float) -> None:
        """See Accounts."""
        await self._write("UPDATE tokens SET used_at = ? WHERE token_id = ?", at, token_id)

    async def take_token(self, hash: bytes, *, now: float) -> TokenRow | None:
        """See Accounts."""

        def work(batch: Batch) -> TokenRow | None:
            found = batch.connection.execute(_TAKE, (hash, now)).fetchone()
            return None if found is None else _token(found)

        return await self._writer.submit(work)

    async def remove_tokens(
        self, user_id: str, *, kind: TokenKind | None = None, token_id: str | None = None
    ) -> int:
        """See Accounts."""
        sql, values = "DELETE FROM tokens WHERE user_id = ?", [user_id]
        for column, value in (("kind", kind), ("token_id", token_id)):
            if value is not None:
                sql += f" AND {column} = ?"
                values.append(value)
        return await self._write(sql, *values)

    async def note_attempt(self, subject: str, at: float) -> None:
        """See Accounts."""

        def work(batch: Batch) -> None:
            batch.connection.execute(_FORGET, (at - ATTEMPTS_KEPT_SECONDS,))
            batch.connection.execute(_ATTEMPT, (subject, at))

        await self._writer.submit(work)

    async def attempts(self, subject: str, *, since: float) -> int:
        """See Accounts."""
        return (await self._all(_ATTEMPTS, subject, since))[0][0]

    async def clear_attempts(self, subject: str) -> None:
        """See Accounts."""
        await self._write("DELETE FROM login_attempts WHERE subject = ?", subject)

    async def note(self, row: AuditRow) -> None:
        """See Accounts."""
        fields = (row.at, row.user_id, row.action, row.target, row.address)
        await self._write(_NOTE, *fields, _data(row.data))

    async def audit(self, *, user_id: str | None = None, limit: int = 100) -> list[AuditRow]:
        """See Accounts."""
        narrowed, values = ("", []) if user_id is None else (" WHERE user_id = ?", [user_id])
        sql = f"{_AUDIT}{narrowed} ORDER BY at DESC, id DESC LIMIT ?"
        rows = await self._all(sql, *values, limit)
        return [AuditRow(*row[:5], data=load_json(unpack(row[5]))) for row in rows]

    async def _one_user(self, sql: str, *values: str) -> UserRow | None:
        rows = await self._all(sql, *values)
        return _user(rows[0]) if rows else None

    async def _all(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        def query(connection: Connection) -> list[tuple[Any, ...]]:
            return connection.execute(sql, values).fetchall()

        return await self._readers.read(query)

    async def _write(self, sql: str, *values: Any) -> int:
        """Run one statement; the number of rows that it changed."""

        def work(batch: Batch) -> int:
            return batch.connection.execute(sql, values).rowcount

        return await self._writer.submit(work)
