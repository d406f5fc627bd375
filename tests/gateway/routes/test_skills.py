"""Skills over HTTP: switched on and off for oneself, written, rolled back, removed."""

from __future__ import annotations

from pathlib import Path

from fakes.gateway import gateway
from fakes.harness import scripted_of

TEXT = "---\nname: {name}\ndescription: {about}\nlicense: MIT\n---\nLook.\n"


def put_public(home: Path, name: str = "survey") -> None:
    folder = home / "skills" / "public" / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(TEXT.format(name=name, about="Surveys."))


async def test_a_skill_is_switched_off_for_oneself_alone(tmp_path: Path) -> None:
    put_public(tmp_path)
    said = {"input": {"messages": [{"role": "user", "content": "Hello"}]}}
    async with gateway(tmp_path, [{"text": "Hi.", "times": 9}], auth=True) as served:
        anna = await served.user("anna@example.org")
        ben = await served.user("ben@example.org")
        off = (await anna.put("/api/skills/survey", json={"enabled": False})).json()
        listed = (await anna.get("/api/skills")).json()["skills"]
        theirs = (await ben.get("/api/skills/survey")).json()
        unknown = await anna.put("/api/skills/surveys", json={"enabled": False})
        offered: list[bool] = []
        for client in (anna, ben):
            await client.post("/api/threads/t/runs/wait", json=said)
            request = scripted_of(served.harness).requests[-1]
            offered.append(any("Surveys." in str(message.content) for message in request.messages))
        on = (await anna.put("/api/skills/survey", json={"enabled": True})).json()
    assert (off["enabled"], theirs["enabled"], on["enabled"]) == (False, True, True)
    assert listed == [off]
    assert (off["category"], off["editable"], off["license"]) == ("public", False, "MIT")
    assert unknown.status_code == 404
    assert "survey" in unknown.json()["cure"]
    assert offered == [False, True]


async def test_life_of_a_skill_of_one_s_own(tmp_path: Path) -> None:
    path = "/api/skills/custom/count"
    async with gateway(tmp_path) as served:
        client = served.client
        first = TEXT.format(name="count", about="First.")
        made = await client.put(path, json={"content": first})
        second = await client.put(path, json={"content": first.replace("First", "Second")})
        broken = await client.put(path, json={"content": "no header"})
        listed = (await client.get("/api/skills/custom")).json()["skills"]
        versions = (await client.get(f"{path}/history")).json()["history"]
        back = (await client.post(f"{path}/rollback", json={"version": 1})).json()
        none = await client.post(f"{path}/rollback", json={"version": 9})
        public = await client.get("/api/skills/custom/survey")
        gone = [(await client.delete(path)).status_code for _ in "ab"]
    assert made.json() == {"name": "count", "content": first}
    assert "Second." in second.json()["content"]
    assert (broken.status_code, "header" in broken.json()["detail"]) == (422, True)
    assert [(each["name"], each["description"], each["editable"]) for each in listed] == [
        ("count", "Second.", True)
    ]
    assert [each["version"] for each in versions] == [2, 1]
    assert back["content"] == first
    assert (none.status_code, public.status_code, gone) == (404, 404, [204, 404])


async def test_archives_are_refused_for_one_s_own_thread_only(tmp_path: Path) -> None:
    body = {"thread_id": "t", "path": "/mnt/user-data/outputs/x.skill"}
    async with gateway(tmp_path) as served:
        unknown = await served.client.post("/api/skills/install", json=body)
        await served.client.post("/api/threads", json={"thread_id": "t"})
        refused = await served.client.post("/api/skills/install", json=body)
    assert (unknown.status_code, refused.status_code) == (404, 409)
