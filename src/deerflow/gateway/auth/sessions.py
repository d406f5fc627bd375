"""Sessions and API tokens: random secrets, looked up in the database, briefly remembered here."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from deerflow.errors import StorageError
from deerflow.gateway.auth.secret import digest, new_secret
from deerflow.gateway.deps import Caller
from deerflow.storage.protocol import Accounts, TokenKind, TokenRow, UserRow

HOUR, DAY = 3600.0, 86_400.0
IDLE, IDLE_REMEMBERED = 12 * HOUR, 30 * DAY
"""Seconds without a request after which a session ends."""
LONGEST, LONGEST_REMEMBERED = 7 * DAY, 90 * DAY
"""Seconds after which it ends in any case."""

CACHE_SECONDS = 3.0
"""A session that another process ended is believed for so long at most."""
LOOK_SECONDS = 10.0
"""So often an answer that lasts is looked at: who was signed out or locked reads no further."""
_CACHED = 10_000
_USE_EVERY = 60.0


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who is signed in, or holds an API token.

    Attributes:
        caller: who.
        csrf: what their writing requests must repeat; "" for API tokens.
        kind: session or api.
    """

    caller: Caller
    csrf: str
    kind: TokenKind


@dataclass(frozen=True, slots=True)
class Opened:
    """A new session. `max_age` in seconds, None = until the browser closes."""

    secret: str
    csrf: str
    max_age: int | None


class Sessions:
    """Opens, finds and ends them.

    Args:
        accounts: where they are kept.
        clock: UTC seconds.
        look: seconds between two looks of `over`.
    """

    def __init__(
        self,
        accounts: Accounts,
        *,
        clock: Callable[[], float] = time.time,
        look: float = LOOK_SECONDS,
    ) -> None:
        self._accounts = accounts
        self._clock = clock
        self._look = look
        self._cache: dict[bytes, tuple[float, Session]] = {}

    async def open(self, user: UserRow, *, remember: bool) -> Opened:
        """Sign somebody in."""
        secret, csrf, now = new_secret(), new_secret(), self._clock()
        longest = LONGEST_REMEMBERED if remember else LONGEST
        await self._accounts.add_token(
            TokenRow(
                token_id=uuid.uuid4().hex,
                user_id=user.user_id,
                kind="session",
                hash=digest(secret),
                created_at=now,
                expires_at=now + longest,
                used_at=now,
                data={"csrf": csrf, "idle": IDLE_REMEMBERED if remember else IDLE},
            )
        )
        return Opened(secret, csrf, int(longest) if remember else None)

    async def find(self, secret: str, kind: TokenKind) -> Session | None:
        """Who holds this secret; None when it is unknown, ended or of another kind."""
        hash, now = digest(secret), self._clock()
        known = self._cache.get(hash)
        if known is not None and now < known[0]:
            return known[1] if known[1].kind == kind else None
        found = await self._accounts.token(hash, now=now)
        if found is None or found[1] is None or found[0].kind != kind:
            self._cache.pop(hash, None)
            return None
        row, user = found[0], found[1]
        used = row.used_at or row.created_at
        if kind == "session" and now - used > float(row.data.get("idle", IDLE)):
            await self._accounts.remove_tokens(row.user_id, token_id=row.token_id)
            return None
        if row.used_at is None or now - row.used_at >= _USE_EVERY:
            await self._accounts.use_token(row.token_id, now)
        session = Session(_caller(row, user), str(row.data.get("csrf", "")), kind)
        if len(self._cache) >= _CACHED:
            self._cache.clear()
        self._cache[hash] = (now + CACHE_SECONDS, session)
        return session

    async def over(self, secret: str, kind: TokenKind) -> None:
        """Return when a secret is good no longer, whichever process ended it."""
        found = True
        while found:
            await asyncio.sleep(self._look)
            with contextlib.suppress(StorageError):  # nobody is sent away for it
                found = await self.find(secret, kind) is not None

    async def end(self, user_id: str, token_id: str) -> bool:
        """End one session or token; False when there is none."""
        self._forget(lambda caller: caller.token_id == token_id)
        removed = await self._accounts.remove_tokens(user_id, token_id=token_id)
        self._forget(lambda caller: caller.token_id == token_id)  # found again meanwhile
        return removed > 0

    async def end_all(self, user_id: str, *, kind: TokenKind | None = "session") -> None:
        """End all sessions of somebody; with `kind` None their API tokens too."""
        await self._accounts.remove_tokens(user_id, kind=kind)
        self._forget(lambda caller: caller.user_id == user_id)

    def _forget(self, which: Callable[[Caller], bool]) -> None:
        for hash in [h for h, (_, session) in self._cache.items() if which(session.caller)]:
            del self._cache[hash]


def _caller(row: TokenRow, user: UserRow) -> Caller:
    scopes = row.data.get("scopes")
    return Caller(
        user_id=user.user_id,
        role=user.role,
        kind="api" if row.kind == "api" else "session",
        scopes=None if scopes is None else frozenset(scopes),
        email=user.email,
        token_id=row.token_id,
    )
