"""Crons keep what they are told: also whether their threads stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deerflow.runtime.planning import task_of
from fakes.gateway import Served, gateway

ON = {"enabled": True}
CRON: dict[str, Any] = {
    "assistant_id": "lead_agent",
    "schedule": "0 9 * * *",
    "input": {"messages": [{"role": "user", "content": "Report."}]},
}


async def kept(served: Served, cron_id: str) -> bool:
    (row,) = await served.runtime.schedules.list("local")
    assert row.schedule_id == cron_id
    return task_of(row).keep


@pytest.mark.parametrize(("told", "keep"), [("delete", False), ("keep", True), (None, True)])
async def test_whether_threads_stay(tmp_path: Path, told: str | None, keep: bool) -> None:
    async with gateway(tmp_path, scheduler=ON) as served:
        body = {**CRON, "on_run_completed": told}
        made = (await served.client.post("/api/runs/crons", json=body)).json()
        assert made["on_run_completed"] == told
        assert await kept(served, made["cron_id"]) == keep

        other = "keep" if told == "delete" else "delete"
        path = f"/api/runs/crons/{made['cron_id']}"
        changed = await served.client.patch(path, json={"on_run_completed": other})
        assert changed.json()["on_run_completed"] == other
        assert await kept(served, made["cron_id"]) == (other == "keep")
        await served.client.patch(path, json={"schedule": "0 8 * * *"})
        assert await kept(served, made["cron_id"]) == (other == "keep")
