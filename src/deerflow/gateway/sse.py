"""Responses that last: frames of a stream, and JSON that somebody waits for.

Plain ASGI instead of StreamingResponse: a client that goes away is noticed at once (not at the next
frame), and the process's end closes the stream so that the client comes back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from deerflow.errors import DeerFlowError
from deerflow.gateway.deps import SIGNED_OUT, Gateway
from deerflow.gateway.frames.encode import body, frame

logger = logging.getLogger(__name__)

HEADERS = {
    "Cache-Control": "no-cache, no-transform",
    "X-Accel-Buffering": "no",
}
"""Of every response that lasts: neither proxy nor browser may hold frames back or change them."""

EVENT_STREAM = "text/event-stream"


class Lasting(Response):
    """Sends chunks as they come, until the end, the process's end, or that of the sign-in.

    Args:
        chunks: what to send; closed in any case.
        stopping: set when the process ends.
        headers: of the response.
        media_type: of it.
        gone: called when the client went away before the end.
        failed: the last chunk when `chunks` fails, made of the error.
    """

    def __init__(
        self,
        chunks: AsyncGenerator[bytes],
        stopping: asyncio.Event,
        *,
        headers: Mapping[str, str] | None = None,
        media_type: str = EVENT_STREAM,
        gone: Callable[[], Awaitable[object]] | None = None,
        failed: Callable[[DeerFlowError], bytes] | None = None,
    ) -> None:
        super().__init__(None, headers={**HEADERS, **(headers or {})}, media_type=media_type)
        del self.headers["content-length"]
        self._chunks = chunks
        self._stopping = stopping
        self._gone = gone
        self._failed = failed or error_frame

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(_left(receive))
        ending = asyncio.create_task(self._stopping.wait())
        tasks: set[asyncio.Task[Any]] = {sending, leaving, ending}
        if (signed_out := scope.get(SIGNED_OUT)) is not None:
            tasks.add(asyncio.create_task(signed_out()))
        gateway: Gateway = scope["app"].state.gateway
        gateway.streams += 1
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gateway.streams -= 1
            whole, left = sending.done(), leaving.done()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._chunks.aclose()
        if whole and (error := sending.exception()) is not None:
            if not isinstance(error, OSError):
                raise error
            whole, left = False, True
        if left and not whole:
            if self._gone is not None:
                await self._gone()
            return
        with contextlib.suppress(OSError):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, send: Send) -> None:
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        try:
            async for chunk in self._chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except DeerFlowError as error:
            logger.warning("a stream ended early: %s", error)
            last = self._failed(error)
            await send({"type": "http.response.body", "body": last, "more_body": True})


def error_frame(error: DeerFlowError) -> bytes:
    """The frame that tells a reader of an error."""
    told = {"error": error.code, "name": error.code, "message": error.message}
    return frame("error", body({**told, "cure": error.cure}))


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
