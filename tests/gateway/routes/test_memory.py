"""Memory over HTTP: always the whole of it, and never anybody else's."""

from __future__ import annotations

from pathlib import Path

from fakes.gateway import gateway

SUMMARIES = {
    "user": {"workContext", "personalContext", "topOfMind"},
    "history": {"recentMonths", "earlierContext", "longTermBackground"},
}


async def test_every_key_is_there_from_the_start(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        found = (await served.client.get("/api/memory")).json()
        again = (await served.client.post("/api/memory/reload")).json()
    assert {layer: set(found[layer]) for layer in SUMMARIES} == SUMMARIES
    assert found["facts"] == []
    assert again == found


async def test_life_of_a_fact(tmp_path: Path) -> None:
    fact = {"content": "Prefers tea.", "category": "preference", "confidence": 0.9}
    async with gateway(tmp_path) as served:
        client = served.client
        made = (await client.post("/api/memory/facts", json=fact)).json()
        ident = made["facts"][0]["id"]
        changed = (
            await client.patch(f"/api/memory/facts/{ident}", json={"content": "Prefers coffee."})
        ).json()
        late = await client.patch(f"/api/memory/facts/{ident}", json={"content": "Water."})
        whole = (await client.get("/api/memory/export")).json()
        newer = changed["facts"][0]["id"]
        gone = (await client.delete(f"/api/memory/facts/{newer}")).json()
        twice = await client.delete(f"/api/memory/facts/{newer}")
        bad = await client.post("/api/memory/facts", json={**fact, "category": "gossip"})
    assert {**fact, "id": ident}.items() <= made["facts"][0].items()
    assert [each["content"] for each in changed["facts"]] == ["Prefers coffee."]
    assert [each["content"] for each in whole["facts"]] == ["Prefers tea.", "Prefers coffee."]
    assert gone["facts"] == []
    assert (late.status_code, twice.status_code, bad.status_code) == (404, 404, 422)


async def test_an_export_is_taken_in_by_somebody_else_and_can_be_cleared(tmp_path: Path) -> None:
    async with gateway(tmp_path, auth=True) as served:
        anna = await served.user("anna@example.org")
        ben = await served.user("ben@example.org")
        await anna.post("/api/memory/facts", json={"content": "Lives in Graz."})
        nothing = (await ben.get("/api/memory")).json()
        taken = (
            await ben.post("/api/memory/import", json=(await anna.get("/api/memory/export")).json())
        ).json()
        wrong = await ben.post("/api/memory/import", json={"pizza": True})
        cleared = (await anna.delete("/api/memory")).json()
        kept = (await ben.get("/api/memory/status")).json()
    assert nothing["facts"] == []
    assert [fact["content"] for fact in taken["facts"]] == ["Lives in Graz."]
    assert wrong.status_code == 422
    assert cleared["facts"] == []
    assert len(kept["data"]["facts"]) == 1
    assert kept["config"]["enabled"] is True
    assert kept["pending"] == 0


async def test_switched_off_it_is_empty_and_takes_nothing(tmp_path: Path) -> None:
    async with gateway(tmp_path, memory={"enabled": False}) as served:
        found = await served.client.get("/api/memory")
        status = (await served.client.get("/api/memory/config")).json()
        refused = await served.client.post("/api/memory/facts", json={"content": "Tea."})
    assert found.json()["facts"] == []
    assert status["enabled"] is False
    assert refused.status_code == 409
    assert "memory.enabled" in refused.json()["cure"]
