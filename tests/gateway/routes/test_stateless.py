from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from deerflow.gateway.routes.stateless import MOST_RUNS
from fakes.gateway import gateway
from fakes.streams import frames_of

HELLO = {"messages": [{"role": "user", "content": "Hello"}]}
SCRIPT: list[Any] = [{"text": "Good day to you.", "when": "Hello", "times": 50}]


async def test_each_run_gets_a_thread_of_its_own(tmp_path: Path) -> None:
    async with gateway(tmp_path, SCRIPT) as served:
        client = served.client
        stream = await client.post("/api/runs/stream", json={"input": HELLO})
        waited = await client.post("/api/runs/wait", json={"input": HELLO})
        batch = await client.post("/api/runs/batch", json=[{"input": HELLO}, {"input": HELLO}])
        for run in batch.json():
            await client.get(f"/api/threads/{run['thread_id']}/runs/{run['run_id']}/join")
        threads = (await client.post("/api/threads/search", json={})).json()
        again = await client.get(f"/api/runs/{batch.json()[0]['run_id']}/stream")
    assert frames_of(stream.content)[-1].event == "end"
    assert len(waited.json()["messages"]) == 2
    assert len({thread["thread_id"] for thread in threads}) == 4
    assert frames_of(again.content)[-1].event == "end"


async def test_runs_are_stopped_together(tmp_path: Path) -> None:
    script = [{"text": "word " * 500, "gap_ms": 20, "times": 9}]
    async with gateway(tmp_path, script) as served:
        client = served.client
        runs = (await client.post("/api/runs/batch", json=[{"input": HELLO}] * 2)).json()
        answer = await client.post("/api/runs/cancel", json={"status": "all"})
        ended = []
        for run in runs:
            path = f"/api/threads/{run['thread_id']}/runs/{run['run_id']}"
            await client.get(f"{path}/join")
            ended.append((await client.get(path)).json()["stop_reason"])
    assert answer.status_code == 204
    assert ended == ["cancelled", "cancelled"]


async def test_p13_somebody_else_s_thread_is_not_there(tmp_path: Path) -> None:
    async with gateway(tmp_path, SCRIPT, auth=True) as served:
        anna = await served.user("anna@example.org")
        ben = await served.user("ben@example.org")
        await anna.post("/api/threads/hers/runs/wait", json={"input": HELLO})
        run = (await anna.get("/api/threads/hers/runs")).json()[0]["run_id"]
        for path in ("/api/runs", "/api/runs/stream", "/api/runs/wait"):
            for place in (
                lambda name: {"thread_id": name},
                lambda name: {"config": {"configurable": {"thread_id": name}}},
                lambda name: {"context": {"thread_id": name}},
            ):
                foreign = await ben.post(path, json={"input": HELLO, **place("hers")})
                random = await ben.post(path, json={"input": HELLO, **place("none")})
                _alike(foreign, random)
        batch = await ben.post("/api/runs/batch", json=[{"input": HELLO, "thread_id": "hers"}])
        assert batch.status_code == 404
        for path in ("messages", "stream"):
            _alike(await ben.get(f"/api/runs/{run}/{path}"), await ben.get(f"/api/runs/x/{path}"))
        assert (await ben.post("/api/threads/search", json={})).json() == []
        assert len((await anna.get("/api/threads/hers/runs")).json()) == 1


def _alike(foreign: httpx.Response, random: httpx.Response) -> None:
    assert foreign.status_code == random.status_code == 404
    assert foreign.json()["code"] == random.json()["code"] == "not_found"


async def test_a_batch_that_is_too_large_is_refused_as_a_whole(tmp_path: Path) -> None:
    async with gateway(tmp_path, SCRIPT) as served:
        body = [{"input": HELLO}] * (MOST_RUNS + 1)
        answer = await served.client.post("/api/runs/batch", json=body)
        assert (await served.client.post("/api/threads/search", json={})).json() == []
    assert answer.status_code == 422
