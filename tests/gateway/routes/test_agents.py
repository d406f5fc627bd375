"""Custom agents over HTTP, when the configuration allows it."""

from __future__ import annotations

from pathlib import Path

from fakes.gateway import gateway
from fakes.harness import scripted_of

ON = {"agents_api": {"enabled": True}}


async def test_life_of_an_agent(tmp_path: Path) -> None:
    body = {
        "name": "clerk",
        "description": "Files things.",
        "soul": "You are a clerk.",
        "skills": [],
        "tool_groups": ["web"],
        "model_settings": {"temperature": 0.2},
        "thinking_enabled": True,
    }
    said = {
        "assistant_id": "clerk",
        "input": {"messages": [{"role": "user", "content": "Hello"}]},
    }
    async with gateway(tmp_path, [{"text": "Hi."}], **ON) as served:
        client = served.client
        free = (await client.get("/api/agents/check?name=clerk")).json()
        made = await client.post("/api/agents", json=body)
        twice = await client.post("/api/agents", json=body)
        taken = (await client.get("/api/agents/check?name=clerk")).json()
        odd = (await client.get("/api/agents/check?name=a/b")).json()
        changed = (await client.put("/api/agents/clerk", json={"description": "Else."})).json()
        listed = (await client.get("/api/agents")).json()["agents"]
        unknown = await client.put("/api/agents/clerk", json={"model": "none"})
        await client.post("/api/threads/t/runs/wait", json=said)
        request = scripted_of(served.harness).requests[-1]
        gone = [(await client.delete("/api/agents/clerk")).status_code for _ in "ab"]
    assert (free["available"], taken["available"], odd["available"]) == (True, False, False)
    assert made.status_code == 201
    assert body.items() <= made.json().items()
    assert twice.status_code == 409
    assert changed == {**made.json(), "description": "Else."}
    assert [(each["name"], each["soul"]) for each in listed] == [("clerk", None)]
    assert unknown.status_code == 422
    assert "You are a clerk." in str(request.messages[0].content)
    assert gone == [204, 404]


async def test_an_agent_whose_files_are_broken_hides_no_other(tmp_path: Path) -> None:
    async with gateway(tmp_path, **ON) as served:
        for name in ("good", "worse"):
            await served.client.post("/api/agents", json={"name": name, "soul": "S."})
        file = tmp_path / "users" / "local" / "agents" / "worse" / "config.yaml"
        file.write_text("max_turns: many\n")
        listed = (await served.client.get("/api/agents")).json()["agents"]
    assert [each["name"] for each in listed] == ["good", "worse"]
    assert "max_turns" in listed[1]["problem"]


async def test_switched_off_they_are_refused(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        answers = [
            await served.client.get("/api/agents"),
            await served.client.post("/api/agents", json={"name": "a"}),
        ]
        features = (await served.client.get("/api/features")).json()
    assert {answer.status_code for answer in answers} == {403}
    assert features["agents_api"] == {"enabled": False}


async def test_words_about_oneself(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        client = served.client
        empty = (await client.get("/api/user-profile")).json()
        put = (await client.put("/api/user-profile", json={"content": "A deer."})).json()
        kept = (await client.get("/api/user-profile")).json()
        await client.put("/api/user-profile", json={"content": ""})
        after = (await client.get("/api/user-profile")).json()
    assert empty == after == {"content": None}
    assert put == kept == {"content": "A deer."}
