"""Programs of other services that the agent may use. None is installed here."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel

from deerflow.errors import ConflictError, NotFoundError
from deerflow.gateway.deps import Caller, needs

router = APIRouter(tags=["integrations"])

Reader = Annotated[Caller, needs("account:read")]
Admin = Annotated[Caller, needs("admin")]


class Integration(BaseModel):
    """Whether a program is there, set up, and logged in."""

    installed: bool
    configured: bool
    authenticated: bool


@router.get("/integrations/lark/status", summary="State of the Lark program")
async def lark_status(who: Reader) -> Integration:
    """Not installed."""
    return Integration(installed=False, configured=False, authenticated=False)


@router.post("/integrations/lark/install", summary="Install the Lark program")
async def lark_install(who: Admin) -> dict[str, Any]:
    """409: this server does not offer it."""
    raise _not_offered()


@router.post("/integrations/lark/config/start", summary="Begin to set Lark up")
async def lark_config_start(who: Admin) -> dict[str, Any]:
    """409: this server does not offer it."""
    raise _not_offered()


@router.post("/integrations/lark/config/complete", summary="Finish setting Lark up")
async def lark_config_complete(who: Admin) -> dict[str, Any]:
    """409: this server does not offer it."""
    raise _not_offered()


@router.post("/integrations/lark/config/credentials", summary="Give Lark its credentials")
async def lark_credentials(who: Admin) -> dict[str, Any]:
    """409: this server does not offer it."""
    raise _not_offered()


@router.post("/integrations/lark/auth/start", summary="Begin to log in to Lark")
async def lark_auth_start(who: Admin) -> dict[str, Any]:
    """409: this server does not offer it."""
    raise _not_offered()


@router.post("/integrations/lark/auth/complete", summary="Finish logging in to Lark")
async def lark_auth_complete(who: Admin) -> dict[str, Any]:
    """409: this server does not offer it."""
    raise _not_offered()


@router.post("/webhooks/github", summary="A delivery of GitHub")
async def github() -> dict[str, Any]:
    """404: no GitHub app is connected; public, since deliveries carry their own signature."""
    raise NotFoundError("No GitHub app is connected to this server.")


def _not_offered() -> ConflictError:
    return ConflictError("The Lark program is not offered by this server.")
