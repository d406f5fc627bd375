from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, MutableMapping
from types import SimpleNamespace
from typing import Any

from deerflow.gateway.deps import SIGNED_OUT
from deerflow.gateway.sse import Lasting


async def test_a_stream_ends_with_the_sign_in_of_its_reader_and_stops_nothing() -> None:
    closed, left, signed_out = asyncio.Event(), asyncio.Event(), asyncio.Event()
    sent: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()

    async def chunks() -> AsyncGenerator[bytes]:
        try:
            yield b"first"
            await asyncio.Event().wait()
        finally:
            closed.set()

    async def receive() -> MutableMapping[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def gone() -> None:
        left.set()

    state = SimpleNamespace(gateway=SimpleNamespace(streams=0))
    scope = {"type": "http", "app": SimpleNamespace(state=state), SIGNED_OUT: signed_out.wait}
    answer = Lasting(chunks(), asyncio.Event(), gone=gone)
    async with asyncio.timeout(10):
        serving = asyncio.create_task(answer(scope, receive, sent.put))
        messages = [await sent.get() for _ in range(2)]
        signed_out.set()
        await serving
    messages.append(sent.get_nowait())
    assert [message.get("body") for message in messages] == [None, b"first", b""]
    assert messages[-1]["more_body"] is False
    assert closed.is_set()
    assert not left.is_set()
    assert state.gateway.streams == 0
