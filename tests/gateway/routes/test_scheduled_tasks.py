"""Scheduled tasks over HTTP."""

from __future__ import annotations

from pathlib import Path

from fakes.gateway import gateway

ON = {"scheduler": {"enabled": True}}
WEEKLY = {"title": "Deer", "prompt": "Count deer.", "cron": "0 9 * * 1"}


async def test_life_of_a_task(tmp_path: Path) -> None:
    async with gateway(tmp_path, [{"text": "Three.", "times": 9}], **ON) as served:
        client = served.client
        await client.post("/api/threads", json={"thread_id": "t"})
        body = {**WEEKLY, "thread_id": "t", "timezone": "Europe/Berlin", "catch_up": "once"}
        made = (await client.post("/api/scheduled-tasks", json=body)).json()
        path = f"/api/scheduled-tasks/{made['id']}"
        changed = (await client.patch(path, json={"prompt": "Count elk.", "title": ""})).json()
        paused = (await client.post(f"{path}/pause")).json()
        resumed = (await client.post(f"{path}/resume")).json()
        started = (await client.post(f"{path}/trigger")).json()
        row = await served.harness.storage.threads.get("local", "t")
        assert row is not None
        await served.runtime.submissions.wait(row.thread_key, started["run_id"])
        runs = (await client.get(f"{path}/runs")).json()
        of_thread = (await client.get("/api/threads/t/scheduled-tasks")).json()
        listed = (await client.get("/api/scheduled-tasks")).json()
        gone = [(await client.delete(path)).status_code for _ in "ab"]
    assert body.items() <= made.items()
    assert (made["kind"], made["status"], made["run_at"]) == ("cron", "active", None)
    assert made["next_run_at"] is not None
    assert (changed["prompt"], changed["title"], changed["cron"]) == ("Count elk.", "", "0 9 * * 1")
    assert (paused["status"], paused["next_run_at"]) == ("paused", None)
    assert (resumed["status"], resumed["next_run_at"]) == ("active", made["next_run_at"])
    assert [(each["run_id"], each["status"]) for each in runs] == [(started["run_id"], "success")]
    assert listed == of_thread == [resumed]
    assert gone == [204, 404]


async def test_a_single_time_and_an_expression_replace_each_other(tmp_path: Path) -> None:
    async with gateway(tmp_path, **ON) as served:
        client = served.client
        once = {"prompt": "Once.", "run_at": "2099-01-01T09:00", "timezone": "Asia/Tokyo"}
        made = (await client.post("/api/scheduled-tasks", json=once)).json()
        path = f"/api/scheduled-tasks/{made['id']}"
        again = (await client.patch(path, json={"cron": "0 9 * * *"})).json()
        back = (await client.patch(path, json={"run_at": "2098-01-01T09:00"})).json()
        both = await client.post("/api/scheduled-tasks", json={**once, "cron": "0 9 * * *"})
        past = await client.post("/api/scheduled-tasks", json={**once, "run_at": "2001-01-01"})
        zone = await client.post("/api/scheduled-tasks", json={**once, "timezone": "Mars"})
    assert made["next_run_at"] == "2099-01-01T00:00:00.000000+00:00"
    assert (again["kind"], again["cron"], again["run_at"]) == ("cron", "0 9 * * *", None)
    assert (back["kind"], back["cron"]) == ("once", None)
    assert {answer.status_code for answer in (both, past, zone)} == {422}


async def test_a_cron_of_the_other_protocol_is_a_task_too(tmp_path: Path) -> None:
    said = {"messages": [{"role": "user", "content": "Hello"}]}
    async with gateway(tmp_path, **ON) as served:
        client = served.client
        cron = {"schedule": "0 9 * * 1", "input": said}
        made = (await client.post("/api/runs/crons", json=cron)).json()
        path = f"/api/scheduled-tasks/{made['cron_id']}"
        found = (await client.get(path)).json()
        changed = (await client.patch(path, json={"model_name": "scripted"})).json()
    assert (found["prompt"], found["cron"]) == ("Hello", "0 9 * * 1")
    assert (changed["prompt"], changed["model_name"]) == ("Hello", "scripted")


async def test_switched_off_nothing_is_planned(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        listed = (await served.client.get("/api/scheduled-tasks")).json()
        refused = await served.client.post("/api/scheduled-tasks", json=WEEKLY)
    assert listed == []
    assert refused.status_code == 422
    assert "scheduler.enabled" in refused.json()["cure"]
