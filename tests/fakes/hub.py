"""A model hub on loopback: redirects, ranges, digests, and connections that break."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web


@dataclass(slots=True)
class FakeHub:
    """What the hub serves and how it misbehaves.

    Attributes:
        files: path in `owner/name` → content.
        digest: what it says of a file; None = the true one.
        break_after: bytes after which a connection is cut, one entry per connection, then none.
        ranges: whether Range is honoured.
        status: answer everything with this status instead.
        requests: (method, range header) in order of arrival.
        arrived: a connection is cut only when this is set: what was sent has been taken in.
        url: where it listens.
    """

    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    digest: str | None = None
    break_after: list[int] = field(default_factory=list[int])
    ranges: bool = True
    status: int = 0
    requests: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    async def resolve(self, request: web.Request) -> web.StreamResponse:
        """`/{repo}/resolve/{revision}/{file}`: sends on to the storage, as a hub does."""
        self.requests.append((request.method, request.headers.get("Range", "")))
        if self.status:
            return web.Response(status=self.status)
        content = self.files.get(request.match_info["file"])
        if content is None:
            return web.Response(status=404)
        digest = self.digest or hashlib.sha256(content).hexdigest()
        headers = {
            "X-Linked-Etag": f'"{digest}"',
            "Location": f"/storage/{request.match_info['file']}",
        }
        return web.Response(status=302, headers=headers)

    async def storage(self, request: web.Request) -> web.StreamResponse:
        """The bytes, from where the range starts."""
        content = self.files[request.match_info["file"]]
        start = 0
        if self.ranges and request.headers.get("Range"):
            start = int(request.headers["Range"].removeprefix("bytes=").removesuffix("-"))
        if start >= len(content):
            return web.Response(status=416)
        reply = web.StreamResponse(status=206 if start else 200)
        reply.content_length = len(content) - start
        await reply.prepare(request)
        if self.break_after:
            await reply.write(content[start : start + self.break_after.pop(0)])
            await self.arrived.wait()
            self.arrived.clear()
            assert request.transport is not None
            request.transport.close()
            return reply
        await reply.write(content[start:])
        await reply.write_eof()
        return reply


@asynccontextmanager
async def fake_hub(**settings: object) -> AsyncIterator[FakeHub]:
    """A running hub."""
    hub = FakeHub(**settings)  # type: ignore[arg-type]
    app = web.Application()
    app.router.add_route("*", "/{owner}/{name}/resolve/{revision}/{file:.+}", hub.resolve)
    app.router.add_get("/storage/{file:.+}", hub.storage)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    hub.url = f"http://{host}:{port}"
    try:
        yield hub
    finally:
        await runner.cleanup()
