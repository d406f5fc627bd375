"""Tools that a caller names: what is taken, and what is refused with a cure."""

from __future__ import annotations

import functools
import threading
from typing import Any

import pytest

from deerflow.client.selection import names_and_tools
from deerflow.errors import UsageError
from fakes.rows import tool


def double(number: int) -> int:
    """Twice a number."""
    return 2 * number


async def half(number: int) -> float:
    """Half a number."""
    return number / 2


def silent(number: int) -> int:
    return number


def test_names_aliases_functions_and_tools_together() -> None:
    names, own = names_and_tools(["bash", "sandbox-python", double, half, tool("mine"), "bash"])
    assert names == ("bash", "python", "double", "half", "mine")
    assert [each.name for each in own] == ["double", "half", "mine"]


def test_a_configured_name_may_be_named() -> None:
    assert names_and_tools(["web"], ["web"]) == (("web",), [])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["bassh"], "Did you mean 'bash'"),
        ([silent], "has no docstring"),
        ([7], "7 is no tool"),
        ([tool("bash")], "'bash' is built in"),
    ],
)
def test_what_is_no_tool_is_refused(given: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        names_and_tools(given)


async def test_a_plain_function_never_blocks_the_loop() -> None:
    seen: list[str] = []

    def where() -> str:
        """The thread."""
        seen.append(threading.current_thread().name)
        return "ok"

    _, [made] = names_and_tools([where])
    assert await made.ainvoke({}) == "ok"
    assert seen != [threading.main_thread().name]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("bash", r"Write: \['bash'\]"),
        ([functools.partial(double, 1)], "has no name"),
        ([tool("load_skill")], "'load_skill' is built in"),
        ([tool("web")], "'web' is configured"),
        ([tool("has space")], "no name of a tool"),
        ([tool("x" * 65)], "no name of a tool"),
    ],
)
def test_tools_that_a_model_could_not_call_are_refused(given: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        names_and_tools(given, ["web"])
