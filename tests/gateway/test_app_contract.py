"""Every row of the contract's table of routes is served, with the permission that it names.

The page lies beside the repository; without it the rows are those of `fakes.routes`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from fastapi.routing import APIRoute, iter_route_contexts

from deerflow.gateway.auth.public import is_public
from fakes.gateway import Served, gateway, route_table
from fakes.routes import EXAMPLES, GLOBAL, Example, World, config_file, filled, furnish

PAGE = Path(__file__).parents[3].joinpath("shared", "design", "http-contract.md")
ROW = re.compile(
    r"^\| (GET|POST|PUT|PATCH|DELETE|WEBSOCKET) \| `(/[^`]+)` \|[^|]*\|([^|]*)\|", re.MULTILINE
)
Golden = Callable[[str, str], None]
APART = re.compile(r"/api/v1/auth/|^WEBSOCKET |/threads/\{[^}]*\}/stream")
"""Sign-in, sockets and streams without an end have tests of their own: here only whether they are
there."""
FRESH = re.compile(r"^DELETE |/prepare$|/branches$|/goal$|/threads/(prune|search)$")
"""Routes whose example needs what the one before may have changed."""


def rows() -> dict[str, str]:
    """ "METHOD path" → permission, of the page; without it the examples, without permissions."""
    if not PAGE.is_file():
        return dict.fromkeys(EXAMPLES, "")
    found = ROW.findall(PAGE.read_text(encoding="utf-8"))
    return {
        f"{method} {path}": allowed.strip().removesuffix(" owner")
        for method, path, allowed in found
    }


def nameless(row: str) -> str:
    """A row whatever its parameters are called."""
    return re.sub(r"\{[^}]*\}", "{}", row)


def permissions(route: APIRoute) -> set[str]:
    """What a route asks of its caller."""
    found, waiting = set[str](), [route.dependant]
    while waiting:
        dependant = waiting.pop()
        waiting += dependant.dependencies
        found |= {getattr(dependant.call, "permission", "")}
    return found - {""}


async def test_every_row_is_served_and_asks_for_its_permission(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        there = {nameless(f"{each.method} {each.path}") for each in route_table(served.app)}
        asks: dict[str, set[str]] = {}
        for found in iter_route_contexts(served.app.routes):
            route = found.original_route
            if isinstance(route, APIRoute):
                for method in route.methods or ():
                    asks[nameless(f"{method} {found.path}")] = permissions(route)
    assert {row for row in rows() if nameless(row) not in there} == set()
    wrong = {row: asks.get(nameless(row)) for row, needed in rows().items()
             if needed and needed not in asks[nameless(row)]}  # fmt: skip
    assert wrong == {}
    open_ = {
        row
        for row, needed in asks.items()
        if not needed
        and row.split(" ", 1)[1].startswith("/api/")
        and not is_public(*row.split(" ", 1))
        and not APART.search(row.split(" ", 1)[1])
    }
    assert open_ == set(), "a route without a permission"


async def test_every_row_answers_in_its_shape(tmp_path: Path) -> None:
    by_form = {nameless(row): (row, example) for row, example in EXAMPLES.items()}
    wrong: dict[str, Any] = {}
    async with gateway(tmp_path, config=config_file(tmp_path), auth=True) as served:
        client = await served.user("anna@example.org", role="admin")
        world, used, number = await furnish(served, client, "a0"), 0, 0
        for form in sorted({nameless(row) for row in rows() if not APART.search(row)}, key=order):
            if form not in by_form:
                wrong[form] = "no example"
                continue
            row, example = by_form[form]
            if used and FRESH.search(row):
                number += 1
                world, used = await furnish(served, client, f"a{number}"), 0
            await at_rest(served, client)
            if problem := await answered(world, row, example):
                wrong[row] = problem
            used += 1
    assert wrong == {}


async def at_rest(served: Served, client: httpx.AsyncClient) -> None:
    """Return when no run of the account is on its way."""
    user_id, queue = await served.user_id(client), served.harness.storage.queue
    for status in ("running", "pending"):
        for thread, run in await queue.of_user(user_id, status=status):
            await served.runtime.submissions.wait(thread.thread_key, run.run_id)


def order(form: str) -> tuple[bool, str]:
    """What removes things comes last."""
    return form.startswith("DELETE "), form


async def answered(world: World, row: str, example: Example) -> Any:
    """What is wrong with the answer to an example; "" when nothing is."""
    ids = world.ids | GLOBAL
    for method, path, body in example.after:
        first = await world.client.request(method, filled(path, ids), json=filled(body, ids))
        assert first.status_code < 300, (row, first.text)
    method, path = row.split(" ", 1)
    answer = await asked(world.client, method, filled(path + example.query, ids), example, ids)
    if answer.status_code != example.status:
        return answer.status_code, answer.text[:300]
    if not example.keys:
        return ""
    value: Any = answer.json()
    return set(example.keys) - set(value[0] if isinstance(value, list) and value else value)


async def asked(
    client: httpx.AsyncClient, method: str, path: str, example: Example, ids: dict[str, str]
) -> httpx.Response:
    """Send an example; uploads are files."""
    if method == "POST" and path.endswith("/uploads"):
        return await client.post(path, files={"files": ("a.txt", b"text")})
    body = filled(example.body, ids)
    return await client.request(method, path, **({} if body is None else {"json": body}))


async def test_the_openapi_document_is_the_golden_one(tmp_path: Path, golden: Golden) -> None:
    async with gateway(tmp_path) as served:
        answer = await served.client.get("/api/openapi.json")
    document = answer.json()
    document["info"]["version"] = "0"
    operations = [one for path in document["paths"].values() for one in path.values()]
    assert [one["operationId"] for one in operations if not one.get("description")] == []
    assert len({one["operationId"] for one in operations}) == len(operations)
    golden("openapi.json", json.dumps(document, indent=1, sort_keys=True) + "\n")
