"""Calls that wait are listed and decided over HTTP, and the run goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fakes.approving import guarded
from fakes.gateway import gateway

FILE = "/mnt/user-data/outputs/a.txt"
ASKS = guarded({"tools": ["write_file"], "decision": "ask", "reason": "writes"})
SAID = {"input": {"messages": [{"role": "user", "content": "Write it"}]}}
SCRIPT: list[Any] = [
    {"calls": [{"name": "write_file", "args": {"path": FILE, "content": "x"}}]},
    {"text": "Done."},
]


async def test_an_approved_call_runs_with_other_arguments(tmp_path: Path) -> None:
    async with gateway(tmp_path, SCRIPT, guardrails=ASKS) as served:
        client = served.client
        await client.post("/api/threads/t/runs/wait", json=SAID)
        [waiting] = (await client.get("/api/approvals")).json()
        of_thread = (await client.get("/api/threads/t/approvals")).json()
        path = f"/api/approvals/{waiting['approval_id']}"
        body = {"decision": "approve", "args": {"path": FILE, "content": "y"}}
        decided = (await client.post(path, json=body)).json()
        late = (await client.post(path, json={"decision": "reject"})).json()
        row = await served.harness.storage.threads.get("local", "t")
        assert row is not None
        run = await served.runtime.submissions.wait(row.thread_key, waiting["run_id"])
        left = (await client.get("/api/approvals")).json()
        all_ = (await client.get("/api/threads/t/approvals?status=all")).json()
    assert (waiting["tool"], waiting["status"], waiting["reason"]) == (
        "write_file",
        "pending",
        "writes",
    )
    assert of_thread == [waiting]
    assert (decided["status"], decided["decided_by"]) == ("approved", "local")
    assert late == decided
    assert run.status == "success"
    assert (left, [each["status"] for each in all_]) == ([], ["approved"])
    assert all_[0]["edited"] == body["args"]


async def test_a_refused_call_does_not_run(tmp_path: Path) -> None:
    async with gateway(tmp_path, SCRIPT, guardrails=ASKS) as served:
        client = served.client
        await client.post("/api/threads/t/runs/wait", json=SAID)
        [waiting] = (await client.get("/api/approvals")).json()
        path = f"/api/approvals/{waiting['approval_id']}"
        body = {"decision": "reject", "reason": "not today"}
        decided = (await client.post(path, json=body)).json()
        row = await served.harness.storage.threads.get("local", "t")
        assert row is not None
        await served.runtime.submissions.wait(row.thread_key, waiting["run_id"])
        state = (await client.get("/api/threads/t/state")).json()
        bad = await client.post(path, json={"decision": "maybe"})
    assert (decided["status"], decided["note"]) == ("rejected", "not today")
    told = [each["content"] for each in state["values"]["messages"] if each["type"] == "tool"]
    assert ["not today" in text for text in told] == [True]
    assert bad.status_code == 422
