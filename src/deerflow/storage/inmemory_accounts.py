"""Accounts in memory."""

from __future__ import annotations

from dataclasses import replace

from deerflow.errors import ConflictError
from deerflow.storage.accounts import (
    ATTEMPTS_KEPT_SECONDS,
    AuditRow,
    TokenKind,
    TokenRow,
    UserRow,
    signed_in,
)
from deerflow.storage.encoding import copied


class MemoryAccounts:
    """Accounts in memory."""

    def __init__(self) -> None:
        self._users: dict[str, UserRow] = {}
        self._identities: dict[tuple[str, str], str] = {}
        self._tokens: dict[bytes, TokenRow] = {}
        self._attempts: list[tuple[str, float]] = []
        self._audit: list[AuditRow] = []

    async def add_user(self, row: UserRow, *, first: bool = False) -> None:
        """See Accounts."""
        if first and any(user.role == "admin" for user in self._users.values()):
            raise ConflictError("There is an administrator already.")
        if row.user_id in self._users:
            raise ConflictError("There is an account with this id already.")
        self._free(row)
        self._users[row.user_id] = _clean(row)

    async def user(self, user_id: str) -> UserRow | None:
        """See Accounts."""
        return self._users.get(user_id)

    async def by_email(self, email: str) -> UserRow | None:
        """See Accounts."""
        wanted = email.lower()
        return next((user for user in self._users.values() if user.email == wanted), None)

    async def users(self, *, limit: int = 1000, offset: int = 0) -> list[UserRow]:
        """See Accounts."""
        rows = sorted(self._users.values(), key=lambda row: (row.created_at, row.user_id))
        return rows[offset : offset + limit]

    async def change_user(self, row: UserRow) -> None:
        """See Accounts."""
        if row.user_id in self._users:
            self._free(row)
            self._users[row.user_id] = _clean(row)

    async def has_admin(self) -> bool:
        """See Accounts."""
        return any(user.role == "admin" and user.active for user in self._users.values())

    async def link(self, provider: str, subject: str, user_id: str) -> None:
        """See Accounts."""
        self._identities.setdefault((provider, subject), user_id)

    async def linked(self, provider: str, subject: str) -> UserRow | None:
        """See Accounts."""
        return self._users.get(self._identities.get((provider, subject), ""))

    async def add_token(self, row: TokenRow) -> None:
        """See Accounts."""
        known = self._tokens.values()
        if row.hash in self._tokens or any(row.token_id == token.token_id for token in known):
            raise ConflictError("There is such a token already.")
        alive = {hash: r for hash, r in self._tokens.items() if not r.expired(row.created_at)}
        self._tokens = {**alive, row.hash: replace(row, data=copied(row.data))}

    async def token(self, hash: bytes, *, now: float) -> tuple[TokenRow, UserRow | None] | None:
        """See Accounts."""
        row = self._tokens.get(hash)
        if row is None:
            return None
        return signed_in(row, self._users.get(row.user_id), now=now)

    async def tokens(self, user_id: str, kind: TokenKind) -> list[TokenRow]:
        """See Accounts."""
        found = [row for row in self._tokens.values() if (row.user_id, row.kind) == (user_id, kind)]
        return sorted(found, key=lambda row: (row.created_at, row.token_id))

    async def use_token(self, token_id: str, at: float) -> None:
        """See Accounts."""
        for hash, row in self._tokens.items():
            if row.token_id == token_id:
                self._tokens[hash] = replace(row, used_at=at)

    async def take_token(self, hash: bytes, *, now: float) -> TokenRow | None:
        """See Accounts."""
        row = self._tokens.get(hash)
        if row is None or row.expired(now):
            return None
        return self._tokens.pop(hash)

    async def remove_tokens(
        self, user_id: str, *, kind: TokenKind | None = None, token_id: str | None = None
    ) -> int:
        """See Accounts."""
        chosen = [
            hash
            for hash, row in self._tokens.items()
            if row.user_id == user_id
            and kind in (None, row.kind)
            and token_id in (None, row.token_id)
        ]
        for hash in chosen:
            del self._tokens[hash]
        return len(chosen)

    async def note_attempt(self, subject: str, at: float) -> None:
        """See Accounts."""
        oldest = at - ATTEMPTS_KEPT_SECONDS
        self._attempts = [entry for entry in self._attempts if entry[1] >= oldest]
        self._attempts.append((subject, at))

    async def attempts(self, subject: str, *, since: float) -> int:
        """See Accounts."""
        return sum(1 for whose, at in self._attempts if whose == subject and at >= since)

    async def clear_attempts(self, subject: str) -> None:
        """See Accounts."""
        self._attempts = [entry for entry in self._attempts if entry[0] != subject]

    async def note(self, row: AuditRow) -> None:
        """See Accounts."""
        self._audit.append(replace(row, data=copied(row.data)))

    async def audit(self, *, user_id: str | None = None, limit: int = 100) -> list[AuditRow]:
        """See Accounts."""
        found = [row for row in reversed(self._audit) if user_id in (None, row.user_id)]
        return sorted(found, key=lambda row: row.at, reverse=True)[:limit]

    def _free(self, row: UserRow) -> None:
        """Raise ConflictError when another account has the e-mail."""
        email = row.email.lower()
        if any(u.email == email and u.user_id != row.user_id for u in self._users.values()):
            raise ConflictError("There is an account with this e-mail address already.")


def _clean(row: UserRow) -> UserRow:
    return replace(row, email=row.email.lower(), data=copied(row.data))
