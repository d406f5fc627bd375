"""One HTTP session per event loop, shared by all models of a catalogue."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import aiohttp

CONNECT_SECONDS = 10.0
"""Longest wait for a TCP or TLS connection; a reachable endpoint needs less than one."""
KEEPALIVE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class _Open:
    session: aiohttp.ClientSession
    guard: AsyncGenerator[None, None]
    on_drop: weakref.finalize[..., Any]


class SessionPool:
    """Hands out the session of the running loop.

    Sessions close by themselves when their loop shuts down its asynchronous generators
    (`asyncio.run` does), when the pool is dropped, or by `aclose`. A loop that was closed without
    is forgotten at the next new loop.
    """

    def __init__(self) -> None:
        self._open: dict[asyncio.AbstractEventLoop, _Open] = {}

    async def session(self) -> aiohttp.ClientSession:
        """The running loop's session, made on first use."""
        loop = asyncio.get_running_loop()
        found = self._open.get(loop)
        if found is not None and not found.session.closed:
            return found.session
        self._forget_dead()
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        guard = _close_with_loop(session)
        # The finalizer also keeps the session alive until it runs: collected in one cycle with the
        # pool, the session would complain before anybody could close it.
        on_drop = weakref.finalize(self, _drop, loop, session, guard)
        on_drop.atexit = False
        self._open[loop] = _Open(session, guard, on_drop)
        await anext(guard)
        return session

    def _forget_dead(self) -> None:
        for loop, opened in list(self._open.items()):
            if loop.is_closed():
                opened.session.detach()
                opened.on_drop.detach()
                del self._open[loop]

    async def aclose(self) -> None:
        """Close the running loop's session; the next call opens a new one."""
        found = self._open.pop(asyncio.get_running_loop(), None)
        if found is not None:
            found.on_drop.detach()
            await found.guard.aclose()


async def _close_with_loop(session: aiohttp.ClientSession) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await session.close()


def _drop(
    loop: asyncio.AbstractEventLoop,
    session: aiohttp.ClientSession,
    guard: AsyncGenerator[None, None],
) -> None:
    """Close a session whose pool is gone, on its own loop, from whatever thread."""
    if loop.is_closed():
        session.detach()
    else:
        loop.call_soon_threadsafe(_close_now, session, guard)


def _close_now(session: aiohttp.ClientSession, guard: AsyncGenerator[None, None]) -> None:
    if session.closed:
        return
    task = asyncio.ensure_future(guard.aclose())
    task.add_done_callback(lambda _: guard)  # keeps the generator until it has ended
