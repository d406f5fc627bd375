"""Opens the runtime while the port listens already, and ends it in bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from deerflow.gateway.config import GatewayConfig
from deerflow.gateway.deps import Gateway
from deerflow.gateway.documents.conversions import converting
from deerflow.gateway.ending import wind_down
from deerflow.gateway.problems import not_ready

if TYPE_CHECKING:
    from deerflow.wiring.runtime import Runtime

Opener = Callable[[], AbstractAsyncContextManager["Runtime"]]
"""Opens the runtime; called once, in a task of its own."""


class Opening:
    """The life of a serving process: opening, open, ending.

    Attributes:
        gateway: everything, once it is open.
        settled: set when it is open or has failed.
        stopping: set when the process ends: runs are drained from then on, while the last answers
            are still sent; everything is closed when the life of the application is over.
    """

    def __init__(self, config: GatewayConfig, opener: Opener) -> None:
        self.gateway: Gateway | None = None
        self.settled = asyncio.Event()
        self.stopping = asyncio.Event()
        self._released = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._config = config
        self._opener = opener

    @property
    def ready(self) -> bool:
        """Whether requests can be answered."""
        return self.gateway is not None and not self.stopping.is_set()

    @property
    def failure(self) -> BaseException | None:
        """Why it could not be opened; None while nothing has failed."""
        task = self._task
        if self.gateway is not None or task is None or not task.done() or task.cancelled():
            return None
        return task.exception()

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncGenerator[None]:
        """Of the application: yields at once, opens in the background."""
        self._task = asyncio.create_task(self._live(app))
        try:
            yield
        finally:
            self.stopping.set()
            self._released.set()
            if not self.settled.is_set():
                self._task.cancel()
            await asyncio.wait([self._task])
        if self.gateway is not None:
            await self._task  # closing may fail

    async def _live(self, app: FastAPI) -> None:
        """One task opens and closes, as scopes of cancellation demand."""
        try:
            async with self._opener() as runtime:
                self.gateway = Gateway(self._config, runtime, self.stopping)
                app.state.gateway = self.gateway
                async with converting(self.gateway):
                    self.settled.set()
                    await self.stopping.wait()
                await wind_down(runtime)
                await self._released.wait()
        finally:
            self.settled.set()


class OpenGate:
    """Answers 503 to everything but health until the process is open, and when it ends."""

    def __init__(self, app: ASGIApp, opening: Opening) -> None:
        self._app = app
        self._opening = opening

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        if scope["type"] == "lifespan" or self._opening.ready or scope["path"] in _ALWAYS:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1013})
        else:
            await not_ready()(scope, receive, send)


_ALWAYS = ("/health", "/ready")
