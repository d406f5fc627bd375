"""Chat apps. None is connected to this server: lists are empty, everything else is refused."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from deerflow.errors import NotFoundError
from deerflow.gateway.deps import Caller, needs

router = APIRouter(prefix="/channels", tags=["channels"])

Reader = Annotated[Caller, needs("account:read")]
Writer = Annotated[Caller, needs("account:write")]
Admin = Annotated[Caller, needs("admin")]
Name = Annotated[str, Field(min_length=1, max_length=64)]


class Providers(BaseModel):
    """Chat apps that users can connect."""

    enabled: bool
    providers: list[dict[str, Any]]


class Connections(BaseModel):
    """Chat accounts that are bound to the caller."""

    connections: list[dict[str, Any]]


class Channels(BaseModel):
    """State of the bots."""

    enabled: bool
    channels: dict[str, Any]


@router.get("/providers", summary="Chat apps that can be connected")
async def providers(who: Reader) -> Providers:
    """None here."""
    return Providers(enabled=False, providers=[])


@router.get("/connections", summary="My chat accounts")
async def connections(who: Reader) -> Connections:
    """None here."""
    return Connections(connections=[])


@router.delete("/connections/{connection_id}", status_code=204, summary="Drop a connection")
async def disconnect(
    connection_id: Annotated[str, Field(min_length=1, max_length=255)], who: Writer
) -> None:
    """404: there is none."""
    raise NotFoundError(f"There is no connection {connection_id[:80]!r}.")


@router.post("/{provider}/connect", summary="Connect a chat account")
async def connect(provider: Name, who: Writer) -> dict[str, Any]:
    """404: the chat app is not there."""
    raise _no_app(provider)


@router.post("/{provider}/runtime-config", summary="Give a bot its credentials")
async def credentials(provider: Name, who: Admin) -> dict[str, Any]:
    """404: the chat app is not there."""
    raise _no_app(provider)


@router.delete("/{provider}/runtime-config", status_code=204, summary="Drop a bot's credentials")
async def drop(provider: Name, who: Admin) -> None:
    """404: the chat app is not there."""
    raise _no_app(provider)


@router.get("/", summary="State of the bots")
async def states(who: Reader) -> Channels:
    """None here."""
    return Channels(enabled=False, channels={})


@router.post("/{name}/restart", summary="Start a bot again")
async def restart(name: Name, who: Admin) -> dict[str, Any]:
    """404: the chat app is not there."""
    raise _no_app(name)


def _no_app(name: str) -> NotFoundError:
    return NotFoundError(f"The chat app {name[:80]!r} is not connected to this server.")
