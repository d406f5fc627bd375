"""Finds out who calls, and lets nobody else in."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from deerflow.errors import AuthError
from deerflow.gateway.auth.public import is_public
from deerflow.gateway.config import GatewayConfig
from deerflow.gateway.deps import Caller
from deerflow.gateway.lifespan import Opening
from deerflow.gateway.problems import answer
from deerflow.runtime.request import LOCAL_USER

OPEN = Caller(LOCAL_USER, role="admin", kind="open")
"""Everybody, when sign-in is switched off."""


class Guard:
    """Puts the caller into the scope (`deerflow.caller`); 401 for routes that need one."""

    def __init__(self, app: ASGIApp, config: GatewayConfig, opening: Opening) -> None:
        self._app = app
        self._config = config
        self._opening = opening

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        caller = OPEN if self._config.auth_disabled else None
        if caller is not None:
            scope["deerflow.caller"] = caller
        elif not is_public(scope.get("method", "GET"), scope["path"]):
            await answer(AuthError("Sign in first."))(scope, receive, send)
            return
        await self._app(scope, receive, send)
