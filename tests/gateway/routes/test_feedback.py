"""Feedback: one opinion of a run."""

from __future__ import annotations

from pathlib import Path

from fakes.gateway import gateway

SAID = {"input": {"messages": [{"role": "user", "content": "Hello"}]}}


async def test_one_opinion_that_can_be_changed_and_taken_back(tmp_path: Path) -> None:
    async with gateway(tmp_path, [{"text": "Hi."}]) as served:
        client = served.client
        await client.post("/api/threads/t/runs/wait", json=SAID)
        run_id = (await client.get("/api/threads/t/runs")).json()[0]["run_id"]
        path = f"/api/threads/t/runs/{run_id}/feedback"
        first = (await client.put(path, json={"rating": 1, "comment": "Good."})).json()
        second = (await client.post(path, json={"rating": -1})).json()
        bad = await client.put(path, json={"rating": 5})
        listed = (await client.get(path)).json()
        alone = (await client.get(f"/api/runs/{run_id}/feedback")).json()
        stats = (await client.get(f"{path}/stats")).json()
        shown = (await client.get("/api/threads/t/messages")).json()
        gone = [(await client.delete(f"{path}/{first['feedback_id']}")).status_code for _ in "ab"]
        nothing = await client.delete(path)
        after = (await client.get(f"{path}/stats")).json()
    assert (first["rating"], first["comment"], first["thread_id"]) == (1, "Good.", "t")
    assert second["feedback_id"] == first["feedback_id"]
    assert listed == alone == [second]
    assert stats == {"run_id": run_id, "total": 1, "positive": 0, "negative": 1}
    assert shown[0]["feedback"]["rating"] == -1
    assert bad.status_code == 422
    assert (gone, nothing.status_code) == ([204, 404], 404)
    assert after["total"] == 0
