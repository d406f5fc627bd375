"""Headers that keep browsers from guessing, framing and leaking."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECURITY = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""On every answer, unless the route says otherwise."""


class SecurityHeaders:
    """Adds them; answers about sign-in are not kept by caches either."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, text in SECURITY.items():
                    headers.setdefault(name, text)
                if "/v1/auth/" in scope["path"]:
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, sending)
