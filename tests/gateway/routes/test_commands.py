"""The agent protocol, and what waits for a human on both protocols."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import orjson

from deerflow.gateway.frames.protocol import frames_in
from fakes.approving import guarded
from fakes.gateway import gateway, listening
from fakes.streams import FOUR, frames_of

HELLO = {"messages": [{"role": "user", "content": "Hello"}]}
SCRIPT: list[Any] = [{"text": "Good day to you.", "when": "Hello", "times": 50}]
FILE = "/mnt/user-data/outputs/a.txt"
ASKS = guarded({"tools": ["write_file"], "decision": "ask", "reason": "writes"})
WRITES: list[Any] = [
    {"calls": [{"name": "write_file", "args": {"path": FILE, "content": "x"}}], "when": "Hello"},
    {"text": "It is written.", "when": "Hello"},
]


async def command(client: httpx.AsyncClient, method: str, **params: Any) -> dict[str, Any]:
    body = {"id": 7, "method": method, "params": params}
    answer = await client.post("/api/threads/t/commands", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    assert found["id"] == 7
    return found


async def events(client: httpx.AsyncClient, last: str, **body: Any) -> list[dict[str, Any]]:
    """Events of the thread until a run is at its end, or `last` comes."""
    found: list[dict[str, Any]] = []
    body = {"channels": ["lifecycle", "input", "messages", "values", "tools"], **body}
    path = "/api/threads/t/stream/events"
    async with asyncio.timeout(20), client.stream("POST", path, json=body) as answer:
        assert answer.status_code == 200
        async with aclosing(answer.aiter_lines()) as lines:
            async for line in lines:
                if line.startswith("data: "):
                    found.append(orjson.loads(line[6:]))
                    data = found[-1]["params"]["data"]
                    if found[-1]["method"] == "lifecycle" and data["event"] == last:
                        return found
    raise AssertionError("the stream ended")


async def test_commands_and_their_events(tmp_path: Path) -> None:
    async with gateway(tmp_path, SCRIPT) as served, listening(served.app) as url:
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            started = await command(client, "run.start", assistant_id="lead_agent", input=HELLO)
            seen = await events(client, "completed")
            again = await events(client, "completed", since=0)
            second = await command(client, "run.start", assistant_id="lead_agent", input=HELLO)
            since = second["meta"]["applied_through_seq"]
            later = await events(client, "completed", since=since)
            state = await command(client, "state.get", namespace=[], keys=["messages"])
            listed = await command(client, "state.listCheckpoints", limit=3)
            tree = await command(client, "agent.getTree")
            unknown = await command(client, "run.dance")
            wrong = await command(client, "run.start", input=HELLO, stream_subgraphs="perhaps")
            missing = await client.post(
                "/api/threads/none/commands",
                json={"id": 1, "method": "state.get", "params": {"namespace": []}},
            )
            bad = await client.post("/api/threads/t/stream/events", json={"channels": ["gossip"]})
    assert started["type"] == "success"
    kinds = [e["params"]["data"]["event"] for e in seen if e["method"] == "messages"]
    assert kinds[0] == "message-start"
    assert kinds[-2:] == ["content-block-finish", "message-finish"]
    block = [e["params"]["data"] for e in seen if e["method"] == "messages"][-2]["content"]
    assert block == {"type": "text", "text": "Good day to you."}
    assert {e["event_id"] for e in again if e["method"] == "values"} == {
        e["event_id"] for e in seen if e["method"] == "values"
    }
    assert [e["seq"] for e in later if "seq" in e] > [since]
    assert len(state["result"]["values"]["messages"]) == 4
    assert set(state["result"]["values"]) == {"messages"}
    assert len(listed["result"]["checkpoints"]) == 3
    assert tree["result"]["tree"]["status"] == "completed"
    assert (unknown["type"], unknown["error"]) == ("error", "unknown_command")
    assert (wrong["type"], wrong["error"]) == ("error", "invalid_argument")
    assert (missing.status_code, bad.status_code) == (404, 422)


async def test_a_call_that_waits_is_answered_by_the_agent_protocol(tmp_path: Path) -> None:
    async with (
        gateway(tmp_path, WRITES, guardrails=ASKS) as served,
        listening(served.app) as url,
        httpx.AsyncClient(base_url=url, timeout=30) as client,
    ):
        await command(client, "run.start", assistant_id="lead_agent", input=HELLO)
        paused = await events(client, "interrupted")
        asked = next(e for e in paused if e["method"] == "input.requested")["params"]["data"]
        answer = {"interrupt_id": asked["interrupt_id"], "namespace": [], "response": True}
        going = await command(client, "input.respond", **answer)
        ended = await events(client, "completed", since=going["meta"]["applied_through_seq"])
    assert asked["value"]["tool"] == "write_file"
    blocks = [e["params"]["data"] for e in ended if e["method"] == "messages"]
    assert {"type": "text", "text": "It is written."} in [b.get("content") for b in blocks]


async def test_a_call_that_waits_is_answered_by_a_run_s_command(tmp_path: Path) -> None:
    async with gateway(tmp_path, WRITES, guardrails=ASKS) as served:
        client = served.client
        body: dict[str, Any] = {"input": HELLO, "stream_mode": FOUR}
        paused = frames_of((await client.post("/api/threads/t/runs/stream", json=body)).content)
        thread = (await client.get("/api/threads/t")).json()
        body = {"command": {"resume": True}, "stream_mode": FOUR}
        going = frames_of((await client.post("/api/threads/t/runs/stream", json=body)).content)
        again = await client.post("/api/threads/t/runs/stream", json=body)
        run_id = paused[0].data["run_id"]
        whole = frames_of((await client.get(f"/api/threads/t/runs/{run_id}/stream")).content)
        run = (await client.get(f"/api/threads/t/runs/{run_id}")).json()
    last = [frame for frame in paused if frame.event == "values"][-1]
    assert last.data["__interrupt__"][0]["value"]["tool"] == "write_file"
    assert thread["status"] == "interrupted"
    assert next(iter(thread["interrupts"].values()))[0]["value"]["tool"] == "write_file"
    assert going[0].data["run_id"] == run_id
    values = [frame.data for frame in going if frame.event == "values"]
    assert values[0]["messages"][0]["content"] == "Hello"
    assert values[-1]["messages"][-1]["content"] == "It is written."
    assert "__interrupt__" not in values[-1]
    assert [frame.event for frame in whole].count("end") == 1
    assert whole[-1].event == "end"
    assert [f.data for f in whole if f.event == "values"][-1] == values[-1]
    assert again.status_code == 409
    assert run["status"] == "success"


async def test_a_whole_thread_is_followed_run_after_run(tmp_path: Path) -> None:
    async with gateway(tmp_path, SCRIPT) as served, listening(served.app) as url:
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            await client.post("/api/threads/t/runs/wait", json={"input": HELLO})
            raw, runs = b"", set[str]()
            headers = {"Last-Event-ID": "-1"}
            async with client.stream("GET", "/api/threads/t/stream", headers=headers) as answer:
                async for chunk in answer.aiter_bytes():
                    raw += chunk
                    ends = raw.count(b"event: end")
                    if ends == 1 and len(runs) == 0:
                        runs.add("second")
                        await client.post("/api/threads/t/runs", json={"input": HELLO})
                    if ends == 2:
                        break
    frames = list(frames_in(raw))
    assert len({data["run_id"] for name, data, _ in frames if name == "metadata"}) == 2
