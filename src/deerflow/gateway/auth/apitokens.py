"""API tokens: scoped, hashed, shown once."""

from __future__ import annotations

import time
import uuid
from typing import get_args

from deerflow.errors import UsageError
from deerflow.gateway.auth.secret import API_PREFIX, digest, new_secret
from deerflow.gateway.deps import Permission
from deerflow.storage.protocol import Accounts, TokenRow, UserRow

SCOPES: tuple[Permission, ...] = get_args(Permission)
"""What a token may be allowed."""

_DAY = 86_400.0
_PER_USER = 100


async def new_token(
    accounts: Accounts,
    user: UserRow,
    name: str,
    *,
    scopes: list[str] | None = None,
    days: int | None = None,
) -> tuple[str, TokenRow]:
    """Make a token; the secret is told here and never again.

    Args:
        accounts: where it is kept.
        user: whose it is.
        name: for people.
        scopes: permissions, None = all that the role has.
        days: how long it works, None = until it is revoked.

    Raises:
        UsageError: an unknown scope, one that the role lacks, or too many tokens.
    """
    unknown = sorted(set(scopes or ()) - set(SCOPES))
    if unknown:
        raise UsageError(f"There is no scope {unknown[0]}.", cure=f"Choose of {', '.join(SCOPES)}.")
    if scopes and "admin" in scopes and user.role != "admin":
        raise UsageError("Only an admin's token can have the scope admin.")
    if len(await accounts.tokens(user.user_id, "api")) >= _PER_USER:
        raise UsageError(f"There are {_PER_USER} tokens already.", cure="Revoke some.")
    secret, now = new_secret(API_PREFIX), time.time()
    row = TokenRow(
        token_id=uuid.uuid4().hex,
        user_id=user.user_id,
        kind="api",
        hash=digest(secret),
        name=name,
        created_at=now,
        expires_at=None if days is None else now + days * _DAY,
        data={} if scopes is None else {"scopes": sorted(set(scopes))},
    )
    await accounts.add_token(row)
    return secret, row
