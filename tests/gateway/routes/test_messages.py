from __future__ import annotations

from pathlib import Path
from typing import Any

from deerflow.gateway.frames.parts import CUT
from deerflow.gateway.transcript import Transcript
from fakes.gateway import gateway
from fakes.streams import log

HELLO = {"messages": [{"role": "user", "content": "Hello"}]}
SCRIPT: list[Any] = [{"text": "Good day to you.", "when": "Hello", "times": 50}]


async def test_pages_go_backwards_through_all_runs(tmp_path: Path) -> None:
    async with gateway(tmp_path, SCRIPT) as served:
        client = served.client
        for _ in range(5):
            await client.post("/api/threads/t/runs/wait", json={"input": HELLO})
        found, before, pages = list[Any](), None, 0
        while True:
            query = {"limit": 3, **({"before_seq": before} if before else {})}
            page = (await client.get("/api/threads/t/messages/page", params=query)).json()
            found, pages, before = page["data"] + found, pages + 1, page["next_before_seq"]
            assert page["has_more"] == (before is not None)
            if before is None:
                break
        whole = (await client.get("/api/threads/t/messages")).json()
        run_id = found[0]["run_id"]
        of_run = (await client.get(f"/api/threads/t/runs/{run_id}/messages")).json()
        alone = (await client.get(f"/api/runs/{run_id}/messages")).json()
    assert pages == 4
    assert [entry["content"]["type"] for entry in found] == ["human", "ai"] * 5
    assert sorted({entry["seq"] for entry in found}) == [entry["seq"] for entry in found]
    assert [entry["seq"] for entry in whole] == [entry["seq"] for entry in found]
    assert of_run["data"] == alone["data"] == found[:2]


async def test_events_of_a_run_and_steps_of_a_child(tmp_path: Path) -> None:
    call = {
        "name": "task",
        "args": {"description": "Look", "prompt": "Look", "subagent_type": "general-purpose"},
    }
    script: list[Any] = [
        {"calls": [call], "when": "Delegate"},
        {"text": "The child has looked.", "when": "Look"},
        {"text": "Done.", "when": "Delegate"},
    ]
    body = {"messages": [{"role": "user", "content": "Delegate"}]}
    async with gateway(tmp_path, script, subagents={"enabled": True}) as served:
        client = served.client
        await client.post("/api/threads/t/runs/wait", json={"input": body})
        run = (await client.get("/api/threads/t/runs")).json()[0]
        path = f"/api/threads/t/runs/{run['run_id']}/events"
        whole = (await client.get(path)).json()
        steps = (await client.get(path, params={"event_types": "subagent.step"})).json()
        task_id = steps[0]["metadata"]["task_id"]
        query = {"event_types": "subagent.step", "task_id": "other"}
        other = (await client.get(path, params=query)).json()
        later = (await client.get(path, params={"after_seq": steps[0]["seq"]})).json()
    names = [event["event_type"] for event in whole]
    assert {"run.start", "subagent.start", "subagent.end", "llm.tool.result"} <= set(names)
    assert names[-1] == "run.end"
    assert steps[-1]["content"]["text"] == "The child has looked."
    assert steps[-1]["content"]["task_id"] == task_id
    assert other == []
    assert all(event["seq"] > steps[0]["seq"] for event in later)


async def test_p06_what_was_seen_of_a_cut_off_answer_stays_in_the_transcript(
    tmp_path: Path,
) -> None:
    async with log(tmp_path) as found:
        await found.begin()
        await found.add("model_started", turn=1, message_id="m")
        await found.piece("m", 0, "Half of an")
        await found.end("cancelled")
        page = await Transcript(found.storage, found.thread).before(None, 10)
        # the thread's next run makes the text void, and keeps it in the log
        void = {"model": "scripted", "attempt": 1, "code": "process_died", "message": "Cut off."}
        again = {"wait_seconds": 0.0, "next_model": "scripted", "message_id": "m"}
        await found.add("model_retry", **void, **again, text="Half of an")
        await found.storage.deltas.finish(found.run.run_id, "m")
        later = await Transcript(found.storage, found.thread).before(None, 10)
    for pages in (page, later):
        assert [entry["content"]["type"] for entry in pages.data] == ["human", "ai"]
        assert pages.data[1]["content"]["content"] == "Half of an"
        assert pages.data[1]["content"]["additional_kwargs"] == {CUT: True}
