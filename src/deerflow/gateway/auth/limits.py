"""How often a login may fail, counted in the database: per account and per address."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from deerflow.errors import LimitError
from deerflow.storage.protocol import Accounts

WINDOW_SECONDS = 900.0
"""Failures older than this are forgiven."""
PER_ACCOUNT, PER_ADDRESS = 10, 50
"""Failures within it."""


class LoginLimits:
    """Counts failures.

    A failure of an account is entered before the password is looked at and forgiven after a
    success, so that attempts at the same time cannot pass together. Of an address those that are
    being looked at in this process count as failures until they are known to be none.
    """

    def __init__(self, accounts: Accounts, *, clock: Callable[[], float] = time.time) -> None:
        self._accounts = accounts
        self._clock = clock
        self._looking: Counter[str] = Counter()

    @asynccontextmanager
    async def attempt(self, account: str, address: str) -> AsyncGenerator[None]:
        """Around the look at a password.

        Args:
            account: e-mail address as entered.
            address: of the caller.

        Raises:
            LimitError: too many failed.
        """
        now = self._clock()
        since = now - WINDOW_SECONDS
        for subject, limit in ((_account(account), PER_ACCOUNT), (_address(address), PER_ADDRESS)):
            used = await self._accounts.attempts(subject, since=since) + self._looking[subject]
            if used >= limit:  # not entered: who keeps trying cannot lock the owner out for ever
                raise _too_many(used, limit)
        subject = _address(address)
        self._looking[subject] += 1  # nothing is awaited since it was looked at
        try:
            await self._accounts.note_attempt(_account(account), now)
            used = await self._accounts.attempts(_account(account), since=since)
            if used > PER_ACCOUNT:
                raise _too_many(used, PER_ACCOUNT)
            yield
        finally:
            self._looking[subject] -= 1
            if not self._looking[subject]:
                del self._looking[subject]

    async def failed(self, address: str) -> None:
        """The password was wrong."""
        await self._accounts.note_attempt(_address(address), self._clock())

    async def succeeded(self, account: str) -> None:
        """It was right."""
        await self._accounts.clear_attempts(_account(account))


def _too_many(used: int, limit: int) -> LimitError:
    minutes = round(WINDOW_SECONDS / 60)
    text = f"Too many attempts to log in. Try again in {minutes} minutes."
    return LimitError(text, rule="login_attempts", used=used, limit=limit)


def _account(email: str) -> str:
    return f"account:{email}"


def _address(address: str) -> str:
    return f"address:{address}"
