"""Turns over HTTP: again, with other words, in another thread; goals; compaction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fakes.gateway import gateway

PATH = "/api/threads/t"


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"input": {"messages": [{"role": "user", "content": text}]}, **more}


async def test_the_latest_turn_is_answered_again(tmp_path: Path) -> None:
    async with gateway(
        tmp_path, [{"text": "One."}, {"text": "Two."}, {"text": "Three."}]
    ) as served:
        client = served.client
        first = (await client.post(f"{PATH}/runs/wait", json=said("Number?"))).json()["messages"]
        prepare = f"{PATH}/runs/regenerate/prepare"
        again = (await client.post(prepare, json={"message_id": first[-1]["id"]})).json()
        asked = {name: again[name] for name in ("input", "checkpoint", "metadata")}
        second = (await client.post(f"{PATH}/runs/wait", json=asked)).json()["messages"]
        edit = f"{PATH}/runs/edit-regenerate/prepare"
        body = {"human_message_id": second[0]["id"], "replacement_text": "Another?"}
        edited = (await client.post(edit, json=body)).json()
        asked = {name: edited[name] for name in ("input", "checkpoint", "metadata")}
        third = (await client.post(f"{PATH}/runs/wait", json=asked)).json()["messages"]
        unknown = await client.post(prepare, json={"message_id": "none"})
    assert [message["content"] for message in second] == ["Number?", "Two."]
    assert [message["content"] for message in third] == ["Another?", "Three."]
    assert edited["replacement_human_message_id"]
    assert edited["source_message_ids"][0] == second[0]["id"]
    assert unknown.status_code == 404


async def test_a_branch_goes_on_by_itself(tmp_path: Path) -> None:
    async with gateway(tmp_path, [{"text": "One."}, {"text": "Two."}]) as served:
        client = served.client
        first = (await client.post(f"{PATH}/runs/wait", json=said("Number?"))).json()["messages"]
        await client.post(f"{PATH}/runs/wait", json=said("Next?"))
        body = {"message_id": first[-1]["id"], "message_ids": [first[-1]["id"]], "title": "Else"}
        made = (await client.post(f"{PATH}/branches", json=body)).json()
        path = f"/api/threads/{made['thread_id']}"
        state = (await client.get(f"{path}/state")).json()
        page = (await client.get(f"{path}/messages/page")).json()
        nothing = await client.post(f"{PATH}/branches", json={})
    assert (made["parent_thread_id"], made["values"]["title"]) == ("t", "Else")
    assert [message["content"] for message in state["values"]["messages"]] == ["Number?", "One."]
    assert [entry["content"]["content"] for entry in page["data"]] == ["Number?", "One."]
    assert nothing.status_code == 404


async def test_a_goal_is_set_shown_and_dropped(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        client = served.client
        missing = await client.put(f"{PATH}/goal", json={"objective": "Find it"})
        await client.post("/api/threads", json={"thread_id": "t"})
        none = (await client.get(f"{PATH}/goal")).json()
        body = {"objective": "Find it", "max_continuations": 3}
        made = (await client.put(f"{PATH}/goal", json=body)).json()
        kept = (await client.get(f"{PATH}/goal")).json()
        gone = (await client.delete(f"{PATH}/goal")).json()
        bad = await client.put(f"{PATH}/goal", json={"objective": ""})
    assert missing.status_code == 404
    assert none == gone == {"goal": None}
    assert made == kept
    assert made["goal"]["status"] == "active"
    assert made["goal"]["max_continuations"] == 3
    assert bad.status_code == 422


async def test_a_conversation_is_compacted(tmp_path: Path) -> None:
    script = [{"text": f"Answer {n}. " + "word " * 200} for n in range(4)]
    async with gateway(tmp_path, [*script, {"text": "They counted deer."}]) as served:
        client = served.client
        await client.post("/api/threads", json={"thread_id": "t"})
        nothing = (await client.post(f"{PATH}/compact", json={"force": True})).json()
        for number in range(4):
            await client.post(f"{PATH}/runs/wait", json=said(f"Question {number}?"))
        done = (await client.post(f"{PATH}/compact", json={"agent_name": "lead_agent"})).json()
        page = (await client.get(f"{PATH}/messages/page")).json()
    assert nothing["compacted"] is False
    assert done["compacted"] is True
    assert done["tokens_after"] < done["tokens_before"]
    assert str(done["messages"]) in done["reason"]
    assert "Question 0?" in [entry["content"]["content"] for entry in page["data"]]
