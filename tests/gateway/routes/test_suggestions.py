"""Follow-up questions and polished drafts."""

from __future__ import annotations

from pathlib import Path

from fakes.gateway import gateway

TALK = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Deer?"}]}], "n": 5}


async def test_questions_are_bounded_and_nothing_is_stored(tmp_path: Path) -> None:
    script = [{"text": '["A?", "B?", "C?", "D?"]'}, {"error": "request"}]
    async with gateway(tmp_path, script) as served:
        client = served.client
        config = (await client.get("/api/suggestions/config")).json()
        missing = await client.post("/api/threads/t/suggestions", json=TALK)
        await client.post("/api/threads", json={"thread_id": "t"})
        found = (await client.post("/api/threads/t/suggestions", json=TALK)).json()
        failed = (await client.post("/api/threads/t/suggestions", json=TALK)).json()
        unknown = await client.post(
            "/api/threads/t/suggestions", json={**TALK, "model_name": "none"}
        )
        events = await served.harness.storage.threads.get("local", "t")
    assert config == {"enabled": True, "max_suggestions": 3}
    assert missing.status_code == 404
    assert found == {"suggestions": ["A?", "B?", "C?"]}
    assert failed == {"suggestions": []}
    assert unknown.status_code == 404
    assert events is not None
    assert events.last_seq == 0


async def test_switched_off_nobody_is_asked(tmp_path: Path) -> None:
    off = {"suggestions": {"enabled": False}, "input_polish": {"enabled": False}}
    async with gateway(tmp_path, **off) as served:
        await served.client.post("/api/threads", json={"thread_id": "t"})
        found = (await served.client.post("/api/threads/t/suggestions", json=TALK)).json()
        refused = await served.client.post("/api/input-polish", json={"text": "draft"})
    assert found == {"suggestions": []}
    assert refused.status_code == 409


async def test_a_draft_is_polished_within_its_limit(tmp_path: Path) -> None:
    script = [{"text": "A draft."}, {"text": "same"}, {"error": "request"}]
    limit = {"input_polish": {"max_chars": 10}}
    async with gateway(tmp_path, script, **limit) as served:
        client = served.client
        better = (await client.post("/api/input-polish", json={"text": "a draft"})).json()
        same = (await client.post("/api/input-polish", json={"text": "same"})).json()
        long = await client.post("/api/input-polish", json={"text": "x" * 11})
        blank = await client.post("/api/input-polish", json={"text": "  "})
        failed = await client.post("/api/input-polish", json={"text": "draft"})
    assert better == {"rewritten_text": "A draft.", "changed": True}
    assert same == {"rewritten_text": "same", "changed": False}
    assert (long.status_code, blank.status_code, failed.status_code) == (422, 422, 502)
