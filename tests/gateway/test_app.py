from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from deerflow.gateway.app import create_app
from deerflow.gateway.config import GatewayConfig
from deerflow.wiring.runtime import Runtime, open_runtime
from fakes.gateway import gateway, listening
from fakes.harness import loaded, scripted_config


async def test_health_answers_while_the_runtime_opens_and_everything_else_is_503(
    tmp_path: Path,
) -> None:
    let = asyncio.Event()
    config = loaded(scripted_config([]), tmp_path)

    @asynccontextmanager
    async def slowly() -> AsyncGenerator[Runtime]:
        await let.wait()
        async with open_runtime(config, {}, durable=False) as runtime:
            yield runtime

    app = create_app(GatewayConfig(auth_disabled=True), config, {}, opener=slowly)
    async with (
        app.router.lifespan_context(app),
        listening(app) as url,
        httpx.AsyncClient(base_url=url) as client,
    ):
        assert (await client.get("/health")).json()["status"] == "healthy"
        early = [await client.get(path) for path in ("/ready", "/api/v1/auth/me", "/")]
        let.set()
        await app.state.opening.settled.wait()
        assert (await client.get("/ready")).json() == {"status": "ready"}
        assert (await client.get("/api/v1/auth/me")).json()["id"] == "local"
    assert {answer.status_code for answer in early} == {503}
    assert {answer.headers["retry-after"] for answer in early} == {"1"}
    assert early[0].json()["code"] == "not_ready"
    assert early[0].json()["retryable"] is True


async def test_a_runtime_that_cannot_be_opened_is_told_and_health_still_answers(
    tmp_path: Path,
) -> None:
    config = loaded(scripted_config([]), tmp_path)

    @asynccontextmanager
    async def broken() -> AsyncGenerator[Runtime]:
        raise OSError("the disk is gone")
        yield

    app = create_app(GatewayConfig(auth_disabled=True), config, {}, opener=broken)
    async with app.router.lifespan_context(app):
        await app.state.opening.settled.wait()
        assert str(app.state.opening.failure) == "the disk is gone"
        assert not app.state.opening.ready


async def test_the_langgraph_prefix_is_served_as_api(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        one = await served.client.get("/api/langgraph/v1/auth/me")
        other = await served.client.get("/api/v1/auth/me")
        outside = await served.client.get("/api/langgraphs/v1/auth/me")
    assert one.status_code == 200
    assert one.json() == other.json()
    assert outside.status_code == 404


async def test_a_body_over_the_limit_is_refused(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        answer = await served.client.post(
            "/api/v1/auth/register", content=b"x" * (16 * 1024 * 1024 + 1)
        )
    assert answer.status_code == 413


async def test_other_sites_may_call_only_when_configured(tmp_path: Path) -> None:
    ask = {"Origin": "https://ui.example.org", "Access-Control-Request-Method": "POST"}
    async with gateway(tmp_path, auth=True) as served:
        closed = await served.client.options("/api/v1/auth/login/local", headers=ask)
    process = GatewayConfig(origins=("https://ui.example.org",))
    async with gateway(tmp_path, process=process) as served:
        allowed = await served.client.options("/api/v1/auth/login/local", headers=ask)
    assert "access-control-allow-origin" not in closed.headers
    assert allowed.headers["access-control-allow-origin"] == "https://ui.example.org"
    assert allowed.headers["access-control-allow-credentials"] == "true"


async def test_a_host_name_outside_the_list_is_refused(tmp_path: Path) -> None:
    process = GatewayConfig(hosts=("deer.example.org",), auth_disabled=True)
    async with gateway(tmp_path, process=process) as served:
        wrong = await served.client.get("/health")
        right = await served.client.get("/health", headers={"Host": "deer.example.org"})
    assert (wrong.status_code, right.status_code) == (400, 200)


async def test_every_answer_carries_the_security_headers(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        answers = [await served.client.get(path) for path in ("/health", "/api/none", "/none")]
    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "SAMEORIGIN"
