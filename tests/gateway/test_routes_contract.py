"""Every row of the tables of routes is served, with the permission that it names.

The page lies beside the repository; the test is left out where it does not.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from deerflow.gateway.app import ROUTERS
from deerflow.gateway.routes import assistants, messages, runs, stateless, states, threads

PAGE = Path(__file__).parents[3].joinpath("shared", "design", "http-contract.md")
ROW = re.compile(r"^\| (GET|POST|PUT|PATCH|DELETE) \| `(/[^`]+)` \|[^|]*\|([^|]*)\|", re.MULTILINE)
HERE = (assistants, messages, runs, stateless, states, threads)
OTHERS = re.compile(
    r"/(feedback|workspace-changes|regenerate|edit-regenerate|branches|goal|compact|uploads"
    r"|artifacts|suggestions|token-usage|browser|mcp-tasks|scheduled-tasks|stats)"
)
"""Parts of paths below a thread that other modules serve."""


def rows() -> list[tuple[str, str, str]]:
    """(method, path, permission) of the rows for threads, runs and assistants."""
    if not PAGE.is_file():
        return []
    found = ROW.findall(PAGE.read_text(encoding="utf-8"))
    mine = re.compile(r"/api/(threads|runs|assistants)\b")
    return [
        (method, path, permission.strip().removesuffix(" owner"))
        for method, path, permission in found
        if mine.match(path) and not OTHERS.search(path)
    ]


def served() -> dict[tuple[str, str], APIRoute]:
    """(method, path) → route of this gateway."""
    found: dict[tuple[str, str], APIRoute] = {}
    for router in (module.router for module in HERE):
        assert router in ROUTERS
        for route in router.routes:
            assert isinstance(route, APIRoute)
            for method in route.methods:
                found[(method, f"/api{route.path}")] = route
    return found


def needed(route: APIRoute) -> set[str]:
    """Permissions that a route asks for."""
    found, waiting = set[str](), [route.dependant]  # codespell:ignore
    while waiting:
        asked = waiting.pop()
        waiting += asked.dependencies
        permission = getattr(asked.call, "permission", None)
        if permission is not None:
            found.add(permission)
    return found


@pytest.mark.skipif(not PAGE.is_file(), reason="the page of the contract is not here")
def test_the_page_has_its_rows() -> None:
    assert len(rows()) >= 28


@pytest.mark.parametrize(("method", "path", "permission"), rows())
def test_row(method: str, path: str, permission: str) -> None:
    route = served()[(method, path)]
    assert needed(route), "a route without a permission"
    if permission:
        assert permission in needed(route)
