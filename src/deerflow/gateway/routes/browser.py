"""The agent's browser, seen and steered by people. This server has none."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, WebSocket
from pydantic import Field

from deerflow.errors import ConflictError
from deerflow.gateway.deps import ThreadWrite
from deerflow.gateway.routes.bodies import Body, Ident

router = APIRouter(tags=["browser"])

NOT_SERVED = 1008
"""Close code: the server refuses by its rules."""


class NavigateBody(Body):
    """Where to."""

    url: str = Field(min_length=1, max_length=8192)


@router.post("/threads/{thread_id}/browser/navigate", summary="Steer the agent's browser")
async def navigate(thread: ThreadWrite, given: NavigateBody) -> dict[str, Any]:
    """409: browser control is off on this server."""
    raise ConflictError("Browser control is off on this server.")


@router.websocket("/threads/{thread_id}/browser/stream")
async def stream(socket: WebSocket, thread_id: Ident) -> None:
    """Closed at once, for any thread."""
    await socket.close(NOT_SERVED, "Browser control is off on this server.")
