"""P20 (service): a provider that hangs takes nobody else down."""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path

import httpx

from deerflow.config.schema import AppConfig
from fakes.gateway import gateway, until
from fakes.openai_endpoint import OpenAIEndpoint, Turn

RUNS = 30
TASK = {"input": {"messages": [{"role": "user", "content": "Hello"}]}}


async def test_p20_others_are_served_while_thirty_runs_hang_on_a_silent_provider(
    tmp_path: Path,
) -> None:
    async with OpenAIEndpoint() as endpoint:
        endpoint.default = Turn(stall="headers")
        config = AppConfig.model_validate(
            {
                "models": [
                    {
                        "name": "silent",
                        "model": "openai:m",
                        "base_url": endpoint.base_url,
                        "api_key": "k",
                    }
                ],
                "sandbox": {"use": "memory"},
            }
        )
        async with gateway(tmp_path, auth=True, config=config) as served:
            anna, ben = await served.user("anna@example.org"), await served.user("b@example.org")
            started = await asyncio.gather(
                *(anna.post("/api/runs", json=TASK) for _ in range(RUNS))
            )
            assert {answer.status_code for answer in started} == {200}
            await until(lambda: len(endpoint.requests) >= RUNS)
            took: list[float] = []
            for number in range(20):
                begun = time.perf_counter()
                answers = [
                    await ben.get("/api/v1/auth/me"),
                    await ben.post("/api/threads", json={"thread_id": f"t{number}"}),
                    await ben.post("/api/threads/search", json={}),
                    await ben.get("/health"),
                ]
                took.append((time.perf_counter() - begun) / len(answers))
                assert {answer.status_code for answer in answers} == {200}
            states = await anna.post("/api/threads/search", json={"limit": 100})
            assert [thread["status"] for thread in states.json()].count("busy") == RUNS
            endpoint.release.set()
        assert statistics.median(took) < 0.2, took


async def test_streams_close_when_the_process_ends(tmp_path: Path) -> None:
    slow = [{"text": "word " * 200, "gap_ms": 50}]
    async with gateway(tmp_path, slow) as served:
        client = served.client
        made = (await client.post("/api/threads", json={})).json()["thread_id"]
        follow = asyncio.create_task(client.post(f"/api/threads/{made}/runs/stream", json=TASK))
        await until(lambda: _busy(client, made))
        served.app.state.opening.stopping.set()
        async with asyncio.timeout(10):
            answer = await follow
    assert answer.status_code == 200
    assert "event: end" not in answer.text


async def _busy(client: httpx.AsyncClient, thread_id: str) -> bool:
    return (await client.get(f"/api/threads/{thread_id}")).json()["status"] == "busy"
