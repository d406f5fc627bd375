"""What a run changed, over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from fakes.gateway import gateway

OUTPUT = "/mnt/user-data/outputs/report.md"


def writes(content: str) -> list[dict[str, Any]]:
    call = {"name": "write_file", "args": {"path": OUTPUT, "content": content}}
    return [{"calls": [call]}, {"text": "Done."}]


async def ran(client: httpx.AsyncClient) -> str:
    """Run once in thread `t`; the URL of what it changed."""
    body = {"input": {"messages": [{"role": "user", "content": "Write"}]}}
    answer = await client.post("/api/threads/t/runs/wait", json=body)
    assert answer.status_code == 200, answer.text
    return f"/api{answer.headers['location'].removesuffix('/join')}/workspace-changes"


async def test_created_then_changed_then_nothing(tmp_path: Path) -> None:
    read = {"calls": [{"name": "read_file", "args": {"path": OUTPUT}}]}
    replace = {
        "name": "str_replace",
        "args": {"path": OUTPUT, "old": "two", "new": "deux"},
    }
    script = [*writes("one\ntwo\n"), read, {"calls": [replace]}, {"text": "Done."}, "Nothing."]
    async with gateway(tmp_path, script, sandbox={"use": "host"}) as served:
        client = served.client
        await client.post("/api/threads", json={"thread_id": "t"})
        urls = [await ran(client) for _ in range(3)]
        found = [(await client.get(url, params={"include_diff": "true"})).json() for url in urls]
        plain = (await client.get(urls[1])).json()
        short = (await client.get(urls[1], params={"include_files": "false"})).json()
        log = (await client.get("/api/threads/t/runs")).json()
        event = await client.get(
            urls[1].replace("workspace-changes", "events"),
            params={"event_types": "workspace_changes"},
        )
    assert len(log) == 3
    assert [each["available"] for each in found] == [True, True, False]
    assert found[0]["summary"]["created"] == 1
    assert found[0]["files"][0]["diff"] == "@@ -0,0 +1,2 @@\n+one\n+two"
    assert found[1]["summary"] == {
        "created": 0, "modified": 1, "deleted": 0, "symlink_created": 0,
        "additions": 1, "deletions": 1, "truncated": False,
    }  # fmt: skip
    assert found[1]["files"][0]["diff"].splitlines() == ["@@ -1,2 +1,2 @@", " one", "-two", "+deux"]
    assert (plain["files"][0]["path"], plain["files"][0]["diff"]) == (OUTPUT, None)
    assert (short["files"], short["summary"]) == ([], found[1]["summary"])
    assert found[2]["files"] == []
    assert found[0]["version"] == 1
    assert event.json()[0]["content"]["summary"] == found[1]["summary"]
    assert "diff" not in event.json()[0]["content"]["files"][0]


async def test_somebody_elses_run_is_unknown(tmp_path: Path) -> None:
    async with gateway(tmp_path, ["Hello"], auth=True) as served:
        anna, ben = await served.user("anna@example.org"), await served.user("ben@example.org")
        await anna.post("/api/threads", json={"thread_id": "t"})
        url = await ran(anna)
        answers = [await anna.get(url), await ben.get(url)]
    assert [answer.status_code for answer in answers] == [200, 404]
