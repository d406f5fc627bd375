"""SIGTERM in the middle of a run: an orderly end, and the next start goes on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx

from fakes.gateway import serve, until

TEXT = "One word comes after another, and nobody is in a hurry here at all. "
SCRIPT: list[dict[str, Any]] = [
    {"text": TEXT * 10, "when": "slowly", "gap_ms": 50, "times": 100},
]
TASK = {"input": {"messages": [{"role": "user", "content": "slowly"}]}}


async def test_a_stopped_server_hands_its_run_to_the_next_start(tmp_path: Path) -> None:
    async with serve(tmp_path, SCRIPT) as served:
        async with httpx.AsyncClient(base_url=f"{served.url}/api", timeout=60) as client:
            run = (await client.post("/runs", json=TASK)).json()
            where = f"/threads/{run['thread_id']}/runs/{run['run_id']}"
            await until(lambda: _is(client, where, "running"))
            async with client.stream("GET", f"{where}/stream") as follow:
                lines = follow.aiter_lines()
                assert await anext(lines)
                begun = time.monotonic()
                code = await served.stop()
                took = time.monotonic() - begun
                rest = [line async for line in lines]
    assert code == 0
    assert took < 42
    assert "event: end" not in rest
    async with serve(tmp_path, SCRIPT) as served:
        async with httpx.AsyncClient(base_url=f"{served.url}/api", timeout=60) as client:
            await until(lambda: _is(client, where, "success"), seconds=60)
            state = (await client.get(f"/threads/{run['thread_id']}/state")).json()
        assert await served.stop() == 0
    messages = state["values"]["messages"]
    assert [message["type"] for message in messages] == ["human", "ai"]
    assert messages[-1]["content"] == TEXT * 10


async def _is(client: httpx.AsyncClient, where: str, status: str) -> bool:
    return (await client.get(where)).json()["status"] == status
