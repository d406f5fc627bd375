"""Passwords: argon2id in a thread, as slow for an unknown account as for a known one."""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING

from deerflow.errors import UsageError

if TYPE_CHECKING:
    from argon2 import PasswordHasher

MIN_LENGTH, MAX_LENGTH = 8, 1024
"""Characters of a password."""

_AT_ONCE = 2
"""Hashes at once: each takes 19 MiB and a core."""


class Passwords:
    """Makes and checks hashes; parameters are OWASP's for argon2id (19 MiB, 2 rounds, 1 lane)."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._nobody: str | None = None

    async def hash(self, password: str) -> str:
        """The hash to keep.

        Raises:
            UsageError: too short or too long.
        """
        check_password(password)
        async with self._turns:
            return await asyncio.to_thread(self._hash, password)

    async def verify(self, hash: str | None, password: str) -> bool:
        """Whether the password belongs to the hash; None takes as long and is False."""
        async with self._turns:
            return await asyncio.to_thread(self._verify, hash, password[: MAX_LENGTH + 1])

    def outdated(self, hash: str) -> bool:
        """Whether it was made with other parameters than today's."""
        return self._hasher.check_needs_rehash(hash)

    @cached_property
    def _hasher(self) -> PasswordHasher:
        from argon2 import PasswordHasher  # noqa: PLC0415  (many a server sees tokens alone)

        return PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)

    def _hash(self, password: str) -> str:
        return self._hasher.hash(password)

    def _verify(self, hash: str | None, password: str) -> bool:
        from argon2.exceptions import (  # noqa: PLC0415  (see above)
            InvalidHashError,
            VerificationError,
        )

        if hash is None and self._nobody is None:
            self._nobody = self._hasher.hash("nobody has this password")
        try:
            return self._hasher.verify(hash or self._nobody or "", password) and hash is not None
        except (VerificationError, InvalidHashError):
            return False


def check_password(password: str) -> None:
    """Refuse what is too short or too long.

    Raises:
        UsageError: it is.
    """
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        raise UsageError(f"A password has {MIN_LENGTH} to {MAX_LENGTH} characters.")
