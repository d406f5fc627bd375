"""What answers first: health at once, 503 until the application is loaded, then the application.

FastAPI, LangChain and the durable engine take seconds to load. They are loaded in a thread while
the port is served already.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

import orjson

from deerflow import __version__

if TYPE_CHECKING:
    from fastapi import FastAPI

    from deerflow.gateway.lifespan import Opening
    from deerflow.wiring.harness import Harness

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_HEALTH = orjson.dumps({"status": "healthy", "service": "deerflow", "version": __version__})
_STARTING = orjson.dumps(
    {
        "type": "urn:deerflow:problem:not_ready",
        "title": "The server is starting.",
        "status": 503,
        "code": "not_ready",
        "detail": "The server is starting.",
        "cure": "",
        "retryable": True,
    }
)


class Front:
    """An ASGI application around one that is still to be loaded.

    Attributes:
        opening: life of the application, once it is loaded.
        settled: set when it is open or has failed.

    Args:
        load: imports and makes the application; called in a thread.
    """

    def __init__(self, load: Callable[[], FastAPI]) -> None:
        self.opening: Opening | None = None
        self.settled = asyncio.Event()
        self._load = load
        self._app: FastAPI | None = None
        self._ended = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def failure(self) -> BaseException | None:
        """Why it could not be loaded or opened; None while nothing has failed."""
        if self.opening is not None:
            return self.opening.failure
        task = self._task
        return task.exception() if task and task.done() and not task.cancelled() else None

    def stop(self) -> None:
        """Begin to end: nothing new is answered, streams close, runs are drained."""
        if self.opening is not None:
            self.opening.stopping.set()

    def harness(self) -> Harness | None:
        """Of the application, once it is open."""
        gateway = self.opening.gateway if self.opening is not None else None
        return gateway.runtime.harness if gateway is not None else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif self._app is not None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1013})
        elif scope["path"] == "/health":
            await _answer(send, 200, _HEALTH)
        else:
            await _answer(send, 503, _STARTING)

    async def _live(self, receive: Receive, send: Send) -> None:
        assert (await receive())["type"] == "lifespan.startup"  # noqa: S101  (ASGI says so)
        self._task = asyncio.create_task(self._bring_up())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self._ended.set()
        if not self.settled.is_set():
            self._task.cancel()
        await asyncio.wait([self._task])
        if self.failure is None and not self._task.cancelled():
            await self._task  # closing may fail
        await send({"type": "lifespan.shutdown.complete"})

    async def _bring_up(self) -> None:
        """One task enters and leaves the application's life."""
        gc.disable()  # collecting while 1,500 modules are loaded costs a tenth of the start
        try:
            app = await asyncio.to_thread(self._load)
            async with app.router.lifespan_context(app):
                self._app, self.opening = app, app.state.opening
                await app.state.opening.settled.wait()
                gc.enable()
                self.settled.set()
                await self._ended.wait()
        finally:
            gc.enable()
            self.settled.set()


async def _answer(send: Send, status: int, body: bytes) -> None:
    kind = b"application/json" if status == 200 else b"application/problem+json"
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    if status == 503:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
