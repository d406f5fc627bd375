"""Finds out who calls, and lets nobody else in."""

from __future__ import annotations

import contextlib
from functools import partial

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from deerflow.errors import AuthError, ForbiddenError
from deerflow.gateway.auth.access import Access
from deerflow.gateway.auth.address import names_this_machine, same_site
from deerflow.gateway.auth.cookies import SAFE_METHODS, SESSION, check_csrf
from deerflow.gateway.auth.public import asks_who, is_public
from deerflow.gateway.auth.secret import API_PREFIX
from deerflow.gateway.config import GatewayConfig
from deerflow.gateway.deps import SIGNED_OUT, Caller
from deerflow.gateway.lifespan import Opening
from deerflow.gateway.problems import answer
from deerflow.runtime.request import LOCAL_USER

OPEN = Caller(LOCAL_USER, role="admin", kind="open", email="local@deerflow.local")
"""Everybody, when sign-in is switched off."""

_POLICY_VIOLATION = 1008


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
        try:
            await self._let_in(scope)
        except AuthError as error:
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
            else:
                await answer(error)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _let_in(self, scope: Scope) -> None:
        connection = HTTPConnection(scope)
        if self._config.auth_disabled:
            self._check_open(connection)
            scope["deerflow.caller"] = OPEN
            return
        path: str = scope["path"]
        if is_public(scope.get("method", "GET"), path):
            if asks_who(path):
                with contextlib.suppress(AuthError):
                    scope["deerflow.caller"] = await self._caller(connection)
            return
        scope["deerflow.caller"] = await self._caller(connection)

    def _check_open(self, connection: HTTPConnection) -> None:
        """Without sign-in, the only guard is that no other site's page can reach this machine."""
        if not self._config.hosts and not names_this_machine(connection):
            raise ForbiddenError("Without sign-in only names of this machine are answered.")
        method = connection.scope.get("method", "")
        if method not in SAFE_METHODS and not same_site(connection, self._config):
            raise ForbiddenError("This page belongs to another site.")

    async def _caller(self, connection: HTTPConnection) -> Caller:
        assert self._opening.gateway is not None  # noqa: S101  (OpenGate stands before)
        access = Access.of(self._opening.gateway)
        secret = _api_token(connection)
        if secret:
            session = await access.sessions.find(secret, "api")
            if session is None:
                raise AuthError("The API token is unknown or expired.", reason="token_invalid")
            connection.scope[SIGNED_OUT] = partial(access.sessions.over, secret, "api")
            return session.caller
        cookie = connection.cookies.get(SESSION)
        if not cookie:
            raise AuthError("Sign in first.", cure="Log in, or send an API token.")
        session = await access.sessions.find(cookie, "session")
        if session is None:
            raise AuthError("The session has ended.", reason="token_expired", cure="Log in again.")
        check_csrf(connection, session, self._config)
        connection.scope[SIGNED_OUT] = partial(access.sessions.over, cookie, "session")
        return session.caller


def _api_token(connection: HTTPConnection) -> str:
    """The API token of a request, "" without one.

    SDKs send keys of other services as X-Api-Key by themselves; those are not ours to refuse.
    """
    scheme, _, secret = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and secret.strip():
        return secret.strip()
    key = connection.headers.get("x-api-key", "").strip()
    return key if key.startswith(API_PREFIX) else ""
