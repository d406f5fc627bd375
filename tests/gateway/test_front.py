from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from deerflow.gateway.app import create_app
from deerflow.gateway.config import GatewayConfig
from deerflow.gateway.front import Front
from deerflow.wiring.runtime import open_runtime
from fakes.harness import loaded, scripted_config


@asynccontextmanager
async def _alive(front: Front) -> AsyncGenerator[httpx.AsyncClient]:
    """A client while the front's life runs, as a server would run it."""
    said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    heard: asyncio.Queue[Any] = asyncio.Queue()
    life = asyncio.create_task(front({"type": "lifespan"}, said.get, heard.put))
    said.put_nowait({"type": "lifespan.startup"})
    assert (await heard.get())["type"] == "lifespan.startup.complete"
    transport = httpx.ASGITransport(front)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client
    said.put_nowait({"type": "lifespan.shutdown"})
    await life
    assert (await heard.get())["type"] == "lifespan.shutdown.complete"


def _loader(home: Path) -> Callable[[], FastAPI]:
    config, process = loaded(scripted_config([]), home), GatewayConfig(auth_disabled=True)
    opener = partial(open_runtime, config, {}, durable=False)
    return lambda: create_app(process, config, {}, opener=opener)


async def test_health_answers_before_the_application_is_loaded(tmp_path: Path) -> None:
    let, load = threading.Event(), _loader(tmp_path)

    def slowly() -> FastAPI:
        assert let.wait(60)
        return load()

    front = Front(slowly)
    async with _alive(front) as client:
        early = await client.get("/health")
        refused = [await client.get(path) for path in ("/ready", "/api/threads", "/")]
        assert front.harness() is None
        let.set()
        await front.settled.wait()
        ready = await client.get("/ready")
        later = await client.get("/health")
        assert front.harness() is not None
        front.stop()
        stopping = await client.get("/api/v1/auth/me")
    assert early.json() == later.json()
    assert {(a.status_code, a.headers["retry-after"]) for a in refused} == {(503, "1")}
    assert {answer.json()["code"] for answer in refused} == {"not_ready"}
    assert (ready.status_code, stopping.status_code) == (200, 503)
    assert front.failure is None


async def test_what_cannot_be_loaded_is_kept_and_health_still_answers() -> None:
    def broken() -> FastAPI:
        raise ImportError("a part is missing")

    front = Front(broken)
    async with _alive(front) as client:
        await front.settled.wait()
        assert (await client.get("/health")).status_code == 200
        assert (await client.get("/ready")).status_code == 503
    assert isinstance(front.failure, ImportError)


async def test_what_cannot_be_opened_is_kept(tmp_path: Path) -> None:
    @asynccontextmanager
    async def broken() -> AsyncGenerator[Any]:
        raise OSError("the disk is gone")
        yield

    config = loaded(scripted_config([]), tmp_path)
    front = Front(lambda: create_app(GatewayConfig(), config, {}, opener=broken))
    async with _alive(front):
        await front.settled.wait()
        assert str(front.failure) == "the disk is gone"


async def test_an_end_before_the_application_is_open_is_an_end(tmp_path: Path) -> None:
    @asynccontextmanager
    async def never() -> AsyncGenerator[Any]:
        await asyncio.Event().wait()
        yield

    config = loaded(scripted_config([]), tmp_path)
    front = Front(lambda: create_app(GatewayConfig(), config, {}, opener=never))
    async with asyncio.timeout(20), _alive(front) as client:
        assert (await client.get("/ready")).status_code == 503
    assert front.failure is None


@pytest.mark.parametrize("path", ["/api/threads", "/ready"])
async def test_a_websocket_is_told_to_come_back(path: str) -> None:
    front = Front(lambda: FastAPI())
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    await front({"type": "websocket", "path": path}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1013}]
