"""One HTTP session per event loop, shared by all models of a catalogue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import aiohttp

CONNECT_SECONDS = 10.0
"""Longest wait for a TCP or TLS connection; a reachable endpoint needs less than one."""
KEEPALIVE_SECONDS = 30.0


class SessionPool:
    """Hands out the session of the running loop.

    Sessions close by themselves when their loop shuts down its asynchronous generators
    (`asyncio.run` does), or by `aclose`. A loop closed without is forgotten at the next new loop.
    """

    def __init__(self) -> None:
        self._open: dict[
            asyncio.AbstractEventLoop, tuple[aiohttp.ClientSession, AsyncGenerator[None, None]]
        ] = {}

    async def session(self) -> aiohttp.ClientSession:
        """The running loop's session, made on first use."""
        loop = asyncio.get_running_loop()
        found = self._open.get(loop)
        if found is not None and not found[0].closed:
            return found[0]
        self._forget_dead()
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        guard = _close_with_loop(session)
        self._open[loop] = (session, guard)
        await anext(guard)
        return session

    def _forget_dead(self) -> None:
        for loop, (session, _guard) in list(self._open.items()):
            if loop.is_closed():
                session.detach()
                del self._open[loop]

    async def aclose(self) -> None:
        """Close the running loop's session; the next call opens a new one."""
        found = self._open.pop(asyncio.get_running_loop(), None)
        if found is not None:
            await found[1].aclose()


async def _close_with_loop(session: aiohttp.ClientSession) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await session.close()
