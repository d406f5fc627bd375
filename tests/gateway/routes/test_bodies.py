"""What no database can keep and no answer can tell is refused, and nothing of it is left behind."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from deerflow.gateway.app import MAX_BODY
from deerflow.gateway.routes.bodies import MOST_METADATA
from fakes.gateway import Served, gateway
from fakes.postgres import need_postgres, served_schema

JSON = {"Content-Type": "application/json"}
HALF, LARGE = "half \ud800", 10**30
MESSAGE = {"messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture(params=["sqlite", "postgres"])
async def served(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Served]:
    if request.param == "sqlite":
        async with gateway(tmp_path, ["Hello."], database={"backend": "sqlite"}) as found:
            yield found
        return
    need_postgres()
    with served_schema() as section:
        async with gateway(tmp_path, ["Hello."], database=section) as found:
            yield found


async def test_half_characters_and_numbers_without_end_are_refused(served: Served) -> None:
    for value in (HALF, LARGE, [[{HALF: 1}]]):
        for method, path, body in (
            ("POST", "/threads", {"thread_id": "new", "metadata": {"x": value}}),
            ("POST", "/threads/search", {"metadata": {"x": value}}),
            ("POST", "/threads/new/runs", {"input": MESSAGE, "metadata": {"x": value}}),
            ("POST", "/threads/new/runs", {"input": MESSAGE, "context": {"x": value}}),
            ("POST", "/assistants", {"graph_id": "lead_agent", "metadata": {"x": value}}),
            ("POST", "/runs/crons", {"schedule": "0 0 * * *", "input": {"x": value}}),
            ("PUT", "/store/items", {"namespace": ["a"], "key": "k", "value": {"x": value}}),
        ):
            answer = await _sent(served, method, path, body)
            assert answer == (422, "bad_input"), (path, value)
    assert (await served.client.post("/api/threads/search", json={})).json() == []


async def test_the_character_0_is_never_the_server_s_fault(served: Served) -> None:
    for method, path in (
        ("GET", "/threads/a%00b"),
        ("DELETE", "/threads/a%00b"),
        ("GET", "/threads/a%00b/runs"),
        ("GET", "/assistants/a%00b"),
        ("DELETE", "/runs/crons/a%00b"),
        ("GET", "/approvals/a%00b"),
        ("PATCH", "/scheduled-tasks/a%00b"),
        ("DELETE", "/store/items"),
        ("POST", "/store/namespaces"),
    ):
        body = {"namespace": ["a\x00"], "key": "k", "prefix": ["a.b\x00"]}
        status, _ = await _sent(served, method, path, body)
        assert status in (404, 422), path
    for path, body in (
        ("/threads", {"thread_id": "a\x00b", "metadata": {"x": "\x00"}}),
        ("/threads/search", {"ids": ["a\x00b"], "metadata": {"x\x00": "\x00"}}),
        ("/assistants", {"graph_id": "lead_agent", "name": "a\x00b", "metadata": {"x": "\x00"}}),
    ):
        status, _ = await _sent(served, "POST", path, body)
        assert status in (200, 422), path


async def test_metadata_is_small_however_it_came_together(served: Served) -> None:
    large, half = {"x": "y" * MOST_METADATA}, "y" * (MOST_METADATA // 2)
    for method, path, body in (
        ("POST", "/threads", {"thread_id": "new", "metadata": large}),
        ("POST", "/threads/new/runs", {"input": MESSAGE, "metadata": large}),
        ("POST", "/assistants", {"graph_id": "lead_agent", "metadata": large}),
    ):
        assert await _sent(served, method, path, body) == (422, "bad_input"), path
    assert (await served.client.post("/api/threads/search", json={})).json() == []
    assert (await _sent(served, "POST", "/threads", {"thread_id": "t"}))[0] == 200
    parts = [
        await _sent(served, *how, {"thread_id": "t", "metadata": {key: half}})
        for how, key in (
            (("PATCH", "/threads/t"), "a"),
            (("PATCH", "/threads/t"), "b"),
            (("POST", "/threads"), "b"),
        )
    ]
    kept = (await served.client.get("/api/threads/t")).json()["metadata"]
    assert [status for status, _ in parts] == [200, 422, 422]
    assert kept == {"a": half}


async def test_a_body_that_is_too_large_is_told_like_every_error(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await served.client.post("/api/threads", content=b"x" * (MAX_BODY + 1), headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert answer.headers["content-type"] == "application/problem+json"
    assert "failed" not in caplog.text


async def _sent(served: Served, method: str, path: str, body: Any) -> tuple[int, str]:
    answer = await served.client.request(
        method, f"/api{path}", content=json.dumps(body).encode(), headers=JSON
    )
    told: Any = answer.json() if answer.content else {}
    return answer.status_code, "" if isinstance(told, list) else str(told.get("code", ""))
