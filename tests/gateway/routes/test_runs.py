from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx

from fakes.gateway import Served, gateway, listening
from fakes.streams import FOUR, Sent, frames_of, text_of

HELLO = {"messages": [{"role": "user", "content": "Hello"}]}
SLOWLY = {"messages": [{"role": "user", "content": "slowly"}]}
SCRIPT: list[Any] = [
    {"text": "Good day to you.", "when": "Hello", "times": 50},
    {"text": "One word after another. " * 200, "when": "slowly", "gap_ms": 20, "times": 50},
]


async def streamed(client: httpx.AsyncClient, path: str, **body: Any) -> list[Sent]:
    answer = await client.post(path, json={"stream_mode": FOUR, **body})
    assert answer.status_code == 200, answer.text
    return frames_of(answer.content)


async def test_a_stream_and_its_headers(tmp_path: Path) -> None:
    async with gateway(tmp_path, SCRIPT) as served:
        answer = await served.client.post(
            "/api/threads/t/runs/stream", json={"input": HELLO, "stream_mode": FOUR}
        )
        frames = frames_of(answer.content)
        run_id = frames[0].data["run_id"]
        run = (await served.client.get(f"/api/threads/t/runs/{run_id}")).json()
        again = await served.client.get(
            f"/api/threads/t/runs/{run_id}/stream", headers={"Last-Event-ID": "-1"}
        )
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache, no-transform"
    assert answer.headers["x-accel-buffering"] == "no"
    assert answer.headers["content-location"] == f"/api/threads/t/runs/{run_id}"
    assert answer.headers["location"].startswith(f"/threads/t/runs/{run_id}/stream?stream_mode=")
    message = next(f.data[0]["id"] for f in frames if f.event == "messages")
    assert text_of(frames, message) == "Good day to you."
    assert text_of(frames_of(again.content), message) == "Good day to you."
    assert run["status"] == "success"
    assert run["assistant_id"] == "lead_agent"
    assert run["llm_call_count"] == 1


async def test_join_is_a_stream_for_those_who_accept_one_and_values_for_others(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path, SCRIPT) as served:
        frames = await streamed(served.client, "/api/threads/t/runs/stream", input=HELLO)
        path = f"/api/threads/t/runs/{frames[0].data['run_id']}/join"
        values = (await served.client.get(path)).json()
        stream = await served.client.get(path, headers={"Accept": "text/event-stream"})
    assert [message["type"] for message in values["messages"]] == ["human", "ai"]
    assert frames_of(stream.content)[-1].event == "end"


async def test_a_failed_run_is_told_by_stream_and_wait(tmp_path: Path) -> None:
    script = [{"error": "auth"}, {"error": "auth"}]
    async with gateway(tmp_path, script) as served:
        frames = await streamed(served.client, "/api/threads/t/runs/stream", input=HELLO)
        waited = await served.client.post("/api/threads/t/runs/wait", json={"input": HELLO})
    assert [frame.event for frame in frames[-2:]] == ["error", "end"]
    assert frames[-2].data["message"]
    assert waited.status_code == 200
    assert set(waited.json()["__error__"]) == {"error", "message"}


async def test_a_busy_thread_is_409_and_its_run_can_be_stopped(tmp_path: Path) -> None:
    async with gateway(tmp_path, SCRIPT) as served:
        client = served.client
        run = (await client.post("/api/threads/t/runs", json={"input": SLOWLY})).json()
        busy = await client.post("/api/threads/t/runs", json={"input": HELLO})
        path = f"/api/threads/t/runs/{run['run_id']}"
        rename = await client.post("/api/threads/t/state", json={"values": {"title": "x"}})
        stopped = await client.post(f"{path}/cancel?wait=1&action=interrupt")
        twice = await client.post(f"{path}/cancel?wait=0&action=interrupt")
        after = (await client.get(path)).json()
    assert (busy.status_code, rename.status_code) == (409, 409)
    assert stopped.status_code == 204
    assert twice.status_code == 409
    assert "is not cancellable" in twice.json()["detail"]
    assert (after["status"], after["stop_reason"]) == ("interrupted", "cancelled")


async def test_a_reader_who_leaves_stops_the_run_only_when_it_said_so(tmp_path: Path) -> None:
    async with gateway(tmp_path, SCRIPT) as served, listening(served.app) as url:
        for wish, ended in (("continue", False), ("cancel", True)):
            run_id = await _left(url, f"t-{wish}", wish)
            run = await _settled(served, run_id, ended=ended)
            assert run.status == ("cancelled" if ended else "running")


async def _left(url: str, thread_id: str, wish: str) -> str:
    body = {"input": SLOWLY, "stream_mode": "messages-tuple", "on_disconnect": wish}
    async with (
        httpx.AsyncClient(base_url=url) as client,
        client.stream("POST", f"/api/threads/{thread_id}/runs/stream", json=body) as answer,
    ):
        async for line in answer.aiter_lines():
            if line == "event: messages":
                return answer.headers["content-location"].rpartition("/")[2]
    raise AssertionError("the stream ended")


async def _settled(served: Served, run_id: str, *, ended: bool) -> Any:
    threads = served.harness.storage.threads
    async with asyncio.timeout(10):
        while True:
            run = await threads.run(run_id)
            assert run is not None
            if not ended or run.ended_at is not None:
                return run
            thread = await threads.by_key(run.thread_key)
            assert thread is not None
            async for event in served.harness.storage.events.follow(run.thread_key):
                if event.type == "run_ended":
                    break


async def test_p06_a_reader_who_comes_back_after_the_end_gets_the_rest_once(
    tmp_path: Path,
) -> None:
    script = [{"text": "word " * 40, "when": "Hello", "gap_ms": 5, "times": 5}]
    body = {"input": HELLO, "stream_mode": FOUR}
    async with gateway(tmp_path, script) as served, listening(served.app) as url:
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            raw = b""
            async with client.stream("POST", "/api/threads/t/runs/stream", json=body) as answer:
                async for chunk in answer.aiter_bytes():
                    raw += chunk
                    if len([f for f in frames_of(raw) if f.event == "messages"]) >= 5:
                        break
            seen = frames_of(raw[: raw.rindex(b"\n\n") + 2])
            run_id = seen[0].data["run_id"]
            path = f"/api/threads/t/runs/{run_id}"
            await client.get(f"{path}/join")
            headers = {"Last-Event-ID": seen[-1].id}
            modes = "&".join(f"stream_mode={mode}" for mode in FOUR)
            rest = frames_of((await client.get(f"{path}/stream?{modes}", headers=headers)).content)
    message = next(f.data[0]["id"] for f in seen if f.event == "messages")
    assert text_of([*seen, *rest], message) == "word " * 40
    assert rest[-1].event == "end"
    assert not {f.id for f in seen if f.id} & {f.id for f in rest}


async def test_wrong_types_are_422_and_unknown_things_404(tmp_path: Path) -> None:
    path = "/api/threads/t/runs"
    async with gateway(tmp_path, SCRIPT) as served:
        client = served.client
        wrong: list[dict[str, Any]] = [
            {"input": HELLO, "stream_mode": "never"},
            {"input": HELLO, "multitask_strategy": "perhaps"},
            {"input": HELLO, "on_disconnect": 3},
            {"input": {"messages": []}},
            {"input": HELLO, "config": []},
            {"input": HELLO, "interrupt_before": ["tools"]},
        ]
        answers = [await client.post(f"{path}/stream", json=body) for body in wrong]
        agent = await client.post(path, json={"input": HELLO, "assistant_id": "nobody"})
        unknown = [
            await client.get(f"{path}/nothing"),
            await client.get(f"{path}/nothing/stream"),
            await client.post(f"{path}/nothing/cancel"),
            await client.delete(f"{path}/nothing"),
        ]
        assert await served.harness.storage.threads.get("local", "t") is None
    assert [answer.status_code for answer in answers] == [422] * 6
    assert agent.status_code == 404
    assert [answer.status_code for answer in unknown] == [404] * 4


async def test_fields_that_other_servers_refuse_are_served(tmp_path: Path) -> None:
    body = {
        "input": HELLO,
        "stream_resumable": True,
        "feedback_keys": ["thumbs"],
        "durability": "async",
        "multitask_strategy": "enqueue",
        "after_seconds": 0.01,
        "metadata": {"a": 1},
        "something_new": 1,
    }
    async with gateway(tmp_path, SCRIPT) as served:
        client = served.client
        first = (await client.post("/api/threads/t/runs", json={"input": SLOWLY})).json()
        second = await client.post("/api/threads/t/runs", json=body)
        key = {"Idempotency-Key": "once"}
        for _ in range(2):
            third = await client.post("/api/threads/u/runs", json={"input": HELLO}, headers=key)
        await client.post(f"/api/threads/t/runs/{first['run_id']}/cancel?wait=1")
        path = f"/api/threads/t/runs/{second.json()['run_id']}"
        values = (await client.get(f"{path}/join")).json()
        runs = (await client.get("/api/threads/u/runs")).json()
    assert second.json()["metadata"] == {"a": 1}
    assert values["messages"][-1]["content"] == "Good day to you."
    assert [run["run_id"] for run in runs] == [third.json()["run_id"]]


async def test_a_key_of_another_thread_s_run_begins_and_tells_nothing(tmp_path: Path) -> None:
    async with gateway(tmp_path, SCRIPT) as served:
        key = {"Idempotency-Key": "once"}
        first = await served.client.post("/api/threads/t/runs", json={"input": HELLO}, headers=key)
        again = await served.client.post(
            "/api/threads/t/runs",
            json={"input": HELLO, "multitask_strategy": "enqueue"},
            headers=key,
        )
        others = [
            await served.client.post(f"/api/threads/u/{path}", json={"input": HELLO}, headers=key)
            for path in ("runs", "runs/stream", "runs/wait")
        ]
        assert (await served.client.get("/api/threads/u")).status_code == 404
    assert first.json()["run_id"] == again.json()["run_id"]
    assert [answer.status_code for answer in others] == [409] * 3
    assert first.json()["run_id"] not in "".join(answer.text for answer in others)
