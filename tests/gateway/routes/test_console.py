"""The console counts one's own runs, by local day."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from fakes.gateway import gateway

SAID = {"input": {"messages": [{"role": "user", "content": "Hello"}]}}
TURN = {"text": "Hi.", "times": 20, "usage": {"input": 100, "output": 20}}


async def test_figures_are_of_the_caller_alone(tmp_path: Path) -> None:
    script = [{**TURN, "times": 3}, {"error": "request"}]
    async with gateway(tmp_path, script, auth=True) as served:
        anna = await served.user("anna@example.org")
        ben = await served.user("ben@example.org")
        for thread in ("a", "a", "b", "b"):
            await anna.post(f"/api/threads/{thread}/runs/wait", json=SAID)
        stats = (await anna.get("/api/console/stats")).json()
        theirs = (await ben.get("/api/console/stats")).json()
        usage = (await anna.get("/api/console/usage?days=3&timezone=Asia/Tokyo")).json()
        nobody = (await ben.get("/api/console/runs")).json()
        zone = await anna.get("/api/console/usage?timezone=Mars")
    assert (stats["threads"], stats["runs"], stats["total_tokens"]) == (2, 4, 360)
    assert stats["runs_by_status"] == {"success": 3, "error": 1}
    assert stats["success_rate"] == 0.75
    assert (theirs["runs"], theirs["threads"], theirs["success_rate"]) == (0, 0, None)
    assert [day["runs"] for day in usage["days"]] in ([0, 0, 4], [0, 4, 0])
    assert sum(day["total_tokens"] for day in usage["days"]) == 360
    assert usage["by_model"]["scripted"]["total_tokens"] == 360
    assert nobody == {"runs": [], "has_more": False, "next_before": None}
    assert zone.status_code == 422


async def test_a_run_counts_on_its_local_day(tmp_path: Path) -> None:
    async with gateway(tmp_path, [TURN]) as served:
        await served.client.post("/api/threads/t/runs/wait", json=SAID)
        tables: Any = getattr(served.harness.storage.threads, "_tables")  # noqa: B009
        run = next(iter(tables.runs.values()))
        at = run.created_at - run.created_at % 86_400 - 86_400 + 3_600  # yesterday, 01:00 UTC
        tables.runs[run.run_id] = replace(run, created_at=at)
        found = {
            zone: (await served.client.get(f"/api/console/usage?days=5&timezone={zone}")).json()
            for zone in ("UTC", "America/New_York")
        }
    days = {
        zone: next(day["date"] for day in usage["days"] if day["runs"])
        for zone, usage in found.items()
    }
    assert days["UTC"] > days["America/New_York"]


async def test_runs_are_read_in_pages_across_threads(tmp_path: Path) -> None:
    async with gateway(tmp_path, [TURN]) as served:
        client = served.client
        for thread in "abcde":
            await client.post(f"/api/threads/{thread}/runs/wait", json=SAID)
        seen: list[str] = []
        query = "limit=2"
        while True:
            page = (await client.get(f"/api/console/runs?{query}")).json()
            seen += [run["thread_id"] for run in page["runs"]]
            if not page["has_more"]:
                break
            query = f"limit=2&before={page['next_before']!r}"
        failed = (await client.get("/api/console/runs?status=error")).json()
    assert seen == list("edcba")
    assert page["next_before"] is None
    assert failed["runs"] == []
