"""Secrets that are handed out once; the database keeps their sha256 alone."""

from __future__ import annotations

import hashlib
import secrets

API_PREFIX = "df_"
"""Begin of an API token, so that it is recognised in a header and by scanners of leaked secrets."""

_BYTES = 32


def new_secret(prefix: str = "") -> str:
    """256 random bits as text for headers and addresses."""
    return prefix + secrets.token_urlsafe(_BYTES)


def digest(secret: str) -> bytes:
    """What is kept of a secret. It is random, so that no slow hash is needed."""
    return hashlib.sha256(secret.encode()).digest()


def same(one: str | None, other: str | None) -> bool:
    """Whether two texts are equal, in a time that tells nothing; empty ones never are."""
    if not one or not other:
        return False
    return secrets.compare_digest(one.encode(), other.encode())
