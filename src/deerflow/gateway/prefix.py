"""`/api/langgraph/*` is `/api/*`: what a reverse proxy does elsewhere, done here."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

FROM, TO = "/api/langgraph", "/api"


class Prefix:
    """Rewrites the path before routes are looked up."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        if scope["type"] != "lifespan" and scope["path"].startswith(f"{FROM}/"):
            raw: bytes | None = scope.get("raw_path")
            scope = {**scope, "path": TO + scope["path"][len(FROM) :]}
            if raw is not None and raw.startswith(FROM.encode()):
                scope["raw_path"] = TO.encode() + raw[len(FROM) :]
        await self._app(scope, receive, send)
