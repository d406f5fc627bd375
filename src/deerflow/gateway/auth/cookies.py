"""The two cookies of a session, and the token that writing requests repeat."""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.responses import Response

from deerflow.errors import ForbiddenError
from deerflow.gateway.auth.access import Access
from deerflow.gateway.auth.address import is_https, same_site
from deerflow.gateway.auth.secret import same
from deerflow.gateway.auth.sessions import Opened, Session
from deerflow.gateway.config import GatewayConfig

SESSION, CSRF, HEADER = "access_token", "csrf_token", "x-csrf-token"
"""Names that existing clients know."""

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def set_cookies(
    response: Response, connection: HTTPConnection, access: Access, opened: Opened
) -> None:
    """Sign the browser in: HttpOnly session, and the CSRF token that its pages can read."""
    secure = is_https(connection, access.process)
    response.set_cookie(
        SESSION,
        opened.secret,
        max_age=opened.max_age,
        httponly=True,
        samesite="lax",
        secure=secure,
    )
    response.set_cookie(CSRF, opened.csrf, max_age=opened.max_age, samesite="strict", secure=secure)


def clear_cookies(response: Response, connection: HTTPConnection, access: Access) -> None:
    """Sign the browser out."""
    secure = is_https(connection, access.process)
    response.delete_cookie(SESSION, httponly=True, samesite="lax", secure=secure)
    response.delete_cookie(CSRF, samesite="strict", secure=secure)


def check_csrf(connection: HTTPConnection, session: Session, config: GatewayConfig) -> None:
    """Refuse a writing request of a cookie session that another site may have made.

    Raises:
        ForbiddenError: header, cookie and session do not agree; a WebSocket of another site.
    """
    if connection.scope["type"] == "websocket":
        if not same_site(connection, config):
            raise ForbiddenError("This page belongs to another site.")
        return
    if connection.scope["method"] in SAFE_METHODS:
        return
    header = connection.headers.get(HEADER)
    if same(header, session.csrf) and same(header, connection.cookies.get(CSRF)):
        return
    raise ForbiddenError(
        "The CSRF token is missing or wrong.",
        cure="Send the cookie csrf_token as header X-CSRF-Token.",
    )
