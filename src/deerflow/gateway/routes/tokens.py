"""API tokens: made by the person who owns them, shown once, revoked at any time."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from deerflow.errors import AuthError, ForbiddenError, NotFoundError
from deerflow.gateway.auth.apitokens import new_token
from deerflow.gateway.deps import Caller
from deerflow.gateway.routes.auth import AccessOf, Who
from deerflow.gateway.wire import iso
from deerflow.storage.protocol import TokenRow

router = APIRouter(prefix="/v1/auth/tokens", tags=["auth"])


class NewToken(BaseModel):
    """What a token is for. `scopes` null = all that the role has; `expires_in_days` null = none."""

    name: str = Field(default="", max_length=200)
    scopes: list[str] | None = Field(default=None, max_length=20)
    expires_in_days: int | None = Field(default=None, ge=1, le=3650)


@router.get("")
async def tokens(access: AccessOf, who: Who) -> dict[str, list[dict[str, Any]]]:
    """The caller's tokens, without their secrets."""
    rows = await access.accounts.tokens(_in_person(who), "api")
    return {"tokens": [_wire(row) for row in rows]}


@router.post("", status_code=201)
async def create(request: Request, access: AccessOf, who: Who, body: NewToken) -> dict[str, Any]:
    """Make a token; `token` is shown here and never again."""
    user = await access.accounts.user(_in_person(who))
    if user is None:
        raise AuthError("The account is gone.", reason="user_not_found")
    secret, row = await new_token(
        access.accounts, user, body.name, scopes=body.scopes, days=body.expires_in_days
    )
    await access.note("token_created", user.user_id, request, target=row.token_id)
    return {**_wire(row), "token": secret}


@router.delete("/{token_id}", status_code=204)
async def revoke(
    request: Request,
    access: AccessOf,
    who: Who,
    token_id: Annotated[str, Path(max_length=64)],
) -> Response:
    """Revoke a token; it is refused everywhere within seconds."""
    mine = await access.accounts.tokens(_in_person(who), "api")
    if all(row.token_id != token_id for row in mine):
        raise NotFoundError(f"There is no token {token_id}.")
    await access.sessions.end(who.user_id, token_id)
    await access.note("token_revoked", who.user_id, request, target=token_id)
    return Response(status_code=204)


def _in_person(who: Caller) -> str:
    """The user id of somebody in a browser: a token makes no tokens.

    Raises:
        ForbiddenError: it is a token, or sign-in is switched off.
    """
    if who.kind != "session":
        raise ForbiddenError("Tokens are made and revoked in a browser session.")
    return who.user_id


def _wire(row: TokenRow) -> dict[str, Any]:
    return {
        "id": row.token_id,
        "name": row.name,
        "scopes": row.data.get("scopes"),
        "created_at": iso(row.created_at),
        "expires_at": iso(row.expires_at),
        "last_used_at": iso(row.used_at),
    }
