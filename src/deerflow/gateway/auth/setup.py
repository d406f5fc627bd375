"""The first admin: by a token that start-up prints, or from this machine itself."""

from __future__ import annotations

import time
import uuid

from starlette.requests import HTTPConnection

from deerflow.errors import ForbiddenError
from deerflow.gateway.auth.access import Access
from deerflow.gateway.auth.address import is_local
from deerflow.gateway.auth.secret import digest, new_secret
from deerflow.storage.protocol import Accounts, TokenRow

SETUP_SECONDS = 86_400.0
"""How long a printed token works."""


async def setup_token(accounts: Accounts) -> str:
    """A token for the first admin, or "" when there is one."""
    if await accounts.has_admin():
        return ""
    secret, now = new_secret(), time.time()
    await accounts.add_token(
        TokenRow(
            token_id=uuid.uuid4().hex,
            user_id="",
            kind="setup",
            hash=digest(secret),
            created_at=now,
            expires_at=now + SETUP_SECONDS,
        )
    )
    return secret


async def allow_first(access: Access, connection: HTTPConnection, token: str) -> None:
    """Let the first admin be made by this call, or refuse.

    Raises:
        ForbiddenError: it comes from elsewhere, without a valid token.
    """
    if is_local(connection):
        return
    now = time.time()
    found = await access.accounts.token(digest(token), now=now) if token else None
    if found is not None and found[0].kind == "setup":
        taken = await access.accounts.take_token(digest(token), now=now)
        if taken is not None:
            return
    raise ForbiddenError(
        "The first account can be made from the server's own machine only.",
        cure="Open the setup link that the server printed, or run `deerflow users create --admin`.",
    )


async def registration_open(access: Access, connection: HTTPConnection) -> bool:
    """Whether people may make accounts themselves.

    Until there is an admin only this machine may; then only when the configuration says so.
    """
    if access.config.local.allow_registration:
        return True
    return is_local(connection) and not await access.accounts.has_admin()
