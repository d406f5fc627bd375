"""P13: on every route somebody else's ids answer like random ones, and nothing is touched.

The routes come from the server's own table: one without an example fails here.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import Message

from fakes.gateway import Served, gateway, route_table
from fakes.routes import (
    BY_ID,
    EXAMPLES,
    GLOBAL,
    IN_BODY,
    SECRET,
    Example,
    World,
    config_file,
    filled,
    furnish,
)

MAKES = frozenset(
    {
        "POST /api/threads/{thread_id}/runs",
        "POST /api/threads/{thread_id}/runs/stream",
        "POST /api/threads/{thread_id}/runs/wait",
        "POST /api/threads/{thread_id}/uploads",
        "POST /api/threads",
        "POST /api/runs",
        "POST /api/runs/wait",
        "POST /api/runs/stream",
        "POST /api/runs/batch",
        "PUT /api/skills/custom/{skill_name}",
        "PUT /api/store/items",
    }
)
"""Routes that make what is not there yet: the caller gets one of their own of this name."""
FOR_ALL = frozenset({"GET /api/threads/{thread_id}/uploads/limits"})
"""Routes that say the same of any id."""
APART = re.compile(r"/api/v1/auth/(oauth|callback)/|/api/models/|/api/channels/\{(provider|name)\}")
"""Parameters that name nothing of a person."""
VARYING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}"
    r"|\d{4}-\d\d-\d\d[T ][0-9:.]+(\+00:00|Z)?|\d{9,}(\.\d+)?|[0-9a-f]{12}"
)
"""Ids and times, which differ from one answer to the next."""


def named(app: FastAPI) -> dict[str, str]:
    """ "METHOD path" → path, of every route with a parameter that names something of a person."""
    return {
        f"{route.method} {route.path}": route.path
        for route in route_table(app)
        if "{" in route.path and route.method != "HEAD" and not APART.search(route.path)
    }


async def sent(client: httpx.AsyncClient, row: str, ids: dict[str, str]) -> tuple[int, str]:
    """Status and text of the answer to an example, with the ids and what varies taken out."""
    method, path = row.split(" ", 1)
    example = EXAMPLES.get(row, Example())
    url = filled(path + example.query, ids | GLOBAL)
    more: dict[str, Any] = {}
    if path.endswith("/uploads") and method == "POST":
        more["files"] = {"files": ("a.txt", b"text")}
    elif example.body is not None:
        more["json"] = filled(example.body, ids | GLOBAL)
    async with asyncio.timeout(20):
        answer = await client.request(method, url, **more)
    text = answer.text
    for name, ident in sorted(ids.items(), key=lambda pair: -len(pair[1])):
        text = text.replace(ident, f"<{name}>")
    return answer.status_code, VARYING.sub("<varying>", text)


async def belongings(world: World) -> dict[str, Any]:
    """Everything that an account can read of its own."""
    client, ids = world.client, world.ids
    paths = [
        *(row.split(" ", 1)[1] for row in BY_ID if row.startswith("GET ") and "stream" not in row),
        *("/api/threads", "/api/memory/export", "/api/skills", "/api/agents", "/api/approvals"),
        *("/api/scheduled-tasks", "/api/v1/auth/tokens", "/api/user-profile"),
        f"/api/store/items?namespace={ids['namespace']}&key={SECRET}",
    ]
    found: dict[str, Any] = {}
    for path in paths:
        answer = await client.get(filled(path, ids))
        found[path] = answer.status_code, answer.text
    listed = await client.post("/api/threads/search", json={"limit": 100})
    crons = await client.post("/api/runs/crons/search", json={})
    return {**found, "threads": listed.json(), "crons": crons.json()}


async def test_every_route_with_an_id_has_an_example(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        rows = {row for row in named(served.app) if not row.startswith("WEBSOCKET ")}
    assert rows - set(BY_ID) == set()


async def test_p13_ids_of_somebody_else_are_like_random_ones(tmp_path: Path) -> None:
    wrong: dict[str, Any] = {}
    async with gateway(tmp_path, config=config_file(tmp_path), auth=True) as served:
        anna = await furnish(served, await served.user("anna@example.org"), "anna")
        ben = await served.user("ben@example.org")
        own = await ben.post("/api/threads", json={"thread_id": "bens"})
        assert own.status_code == 200
        before = await belongings(anna)
        rows = {*named(served.app)} & {*BY_ID} | {*IN_BODY}
        for row in sorted(rows, key=lambda row: (row in MAKES, row)):
            theirs, random = await sent(ben, row, anna.ids), await sent(ben, row, anna.random().ids)
            said = theirs[1]
            if row in MAKES:  # his own of this name would be found by the next one
                await ben.delete(f"/api/threads/{anna.ids['thread_id']}")
            if row in MAKES and row.endswith("/stream"):  # pieces of text come as they come
                theirs, random = (theirs[0], ""), (random[0], "")
            if theirs != random:
                wrong[row] = theirs, random
            elif row in BY_ID and row not in MAKES | FOR_ALL and theirs[0] != 404:
                wrong[row] = theirs
            if SECRET in said:
                wrong[row] = theirs
            if "{thread_id}/" in row and row.count("{") > 1:  # own thread, somebody else's run
                mixed = await sent(ben, row, anna.ids | {"thread_id": "bens"})
                if mixed[0] != 404:
                    wrong[f"{row} (own thread)"] = mixed
        after = await belongings(anna)
    assert wrong == {}
    assert {path for path in before if before[path] != after[path]} == set()


@pytest.mark.parametrize("again", ["owner", "other"])
async def test_p13_a_thread_made_anew_shows_nothing_of_the_one_before(
    tmp_path: Path, again: str
) -> None:
    wrong: dict[str, Any] = {}
    async with gateway(tmp_path, config=config_file(tmp_path), auth=True) as served:
        anna = await furnish(served, await served.user("anna@example.org"), "anna")
        ben = await served.user("ben@example.org")
        gone = await anna.client.delete(f"/api/threads/{anna.ids['thread_id']}")
        assert gone.status_code == 204
        client = anna.client if again == "owner" else ben
        await client.post("/api/threads", json={"thread_id": anna.ids["thread_id"]})
        for row in named(served.app):
            if row.startswith("GET ") and "{thread_id}" in row and "scheduled" not in row:
                if row.endswith("/threads/{thread_id}/stream"):
                    continue  # follows the thread for as long as it is there
                status, text = await sent(client, row, anna.ids)
                if SECRET in text:
                    wrong[row] = status, text
                if "{run_id}" in row and status != 404:
                    wrong[row] = status, text
    assert wrong == {}


async def test_p13_sockets_close_alike(tmp_path: Path) -> None:
    async with gateway(tmp_path, config=config_file(tmp_path), auth=True) as served:
        anna = await furnish(served, await served.user("anna@example.org"), "anna")
        ben = await served.user("ben@example.org")
        found: dict[str, tuple[bool, list[Message]]] = {}
        for row, path in named(served.app).items():
            if row.startswith("WEBSOCKET "):
                theirs = await socket(served, ben, filled(path, anna.ids))
                random = await socket(served, ben, filled(path, anna.random().ids))
                found[path] = theirs == random, theirs
    assert found
    assert {path: what for path, (alike, what) in found.items() if not alike} == {}
    assert all(messages[-1]["type"] == "websocket.close" for _, messages in found.values())


async def socket(served: Served, client: httpx.AsyncClient, path: str) -> list[Message]:
    """What the server sends to somebody who opens a socket and says nothing."""
    cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    headers = [(b"cookie", cookies.encode()), (b"host", b"127.0.0.1:2026")]
    scope = {
        **{"type": "websocket", "path": path, "raw_path": path.encode(), "query_string": b""},
        **{"headers": headers, "client": ("127.0.0.1", 5), "server": ("127.0.0.1", 2026)},
        **{"scheme": "ws", "subprotocols": [], "asgi": {"version": "3.0"}, "root_path": ""},
    }
    messages: list[Message] = []
    closed = asyncio.Event()
    opened = asyncio.Event()

    async def receive() -> Message:
        if not opened.is_set():
            opened.set()
            return {"type": "websocket.connect"}
        await closed.wait()
        return {"type": "websocket.disconnect", "code": 1000}

    async def send(message: Message) -> None:
        messages.append(message)
        if message["type"] == "websocket.close":
            closed.set()

    async with asyncio.timeout(10):
        await served.app(scope, receive, send)
    return messages
