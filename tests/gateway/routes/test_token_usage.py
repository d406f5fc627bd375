"""Tokens of a thread, and how full the window is."""

from __future__ import annotations

from pathlib import Path

from fakes.gateway import gateway
from fakes.harness import SCRIPTED

SAID = {"input": {"messages": [{"role": "user", "content": "Hello"}]}}


async def test_sums_over_runs_and_the_last_answer_s_context(tmp_path: Path) -> None:
    turn = {"text": "Hi.", "times": 2, "usage": {"input": 100, "output": 20}}
    model = {"name": "scripted", "use": SCRIPTED, "script": [turn], "context_window": 1000}
    async with gateway(tmp_path, models=[model]) as served:
        client = served.client
        await client.post("/api/threads", json={"thread_id": "t"})
        empty = (await client.get("/api/threads/t/token-usage")).json()
        for _ in range(2):
            await client.post("/api/threads/t/runs/wait", json=SAID)
        found = (await client.get("/api/threads/t/token-usage")).json()
    assert (empty["total_runs"], empty["total_tokens"], empty["context_usage"]) == (0, 0, None)
    assert (found["total_runs"], found["total_tokens"]) == (2, 240)
    assert (found["total_input_tokens"], found["total_output_tokens"]) == (200, 40)
    assert found["by_caller"] == {"lead_agent": 240, "subagent": 0, "middleware": 0}
    assert found["by_model"]["scripted"]["total_tokens"] == 240
    assert found["context_usage"] == {
        "token_count": 120,
        "max_context_tokens": 1000,
        "percentage": 12.0,
    }


async def test_without_a_known_window_there_is_no_share(tmp_path: Path) -> None:
    turn = {"text": "Hi.", "usage": {"input": 100, "output": 20}}
    async with gateway(tmp_path, [turn]) as served:
        await served.client.post("/api/threads/t/runs/wait", json=SAID)
        found = (await served.client.get("/api/threads/t/token-usage")).json()
    assert found["total_tokens"] == 120
    assert found["context_usage"] is None
