"""What a caller names as tools: built-in names, functions, and LangChain tools."""

from __future__ import annotations

import asyncio
import difflib
import inspect
from collections.abc import Callable, Iterable
from typing import Any, cast

from langchain_core.tools import BaseTool, StructuredTool

from deerflow.errors import UsageError
from deerflow.tools.registry import builtin_tools

ALIASES = {"sandbox-python": "python", "sandbox-bash": "bash"}
"""Names that the public articles use → ours."""

Given = str | BaseTool | Callable[..., Any]


def names_and_tools(
    given: Iterable[Given], known: Iterable[str] = ()
) -> tuple[tuple[str, ...], list[BaseTool]]:
    """The names that an agent may use, and the tools among them that are the caller's own.

    Args:
        given: names of built-in or configured tools, functions with type hints, LangChain tools.
        known: names of further tools that may be named.

    Raises:
        UsageError: a name that nobody has, with the nearest one; something that is no tool; the
            name of a built-in tool for another.
    """
    builtin = {tool.name for tool in builtin_tools()}
    names: list[str] = []
    own: list[BaseTool] = []
    for each in given:
        if isinstance(each, str):
            name = ALIASES.get(each, each)
            if name not in builtin and name not in known:
                raise _unknown(each, sorted({*builtin, *known, *ALIASES}))
        else:
            made = _made(each)
            name = made.name
            if name in builtin:
                raise UsageError(f"The tool {name!r} is built in.", cure="Give yours another name.")
            own.append(made)
        names.append(name)
    return tuple(dict.fromkeys(names)), own


def check_tools(own: Iterable[BaseTool]) -> None:
    """Refuse two tools of one name: an agent or its helpers would be offered the wrong one.

    Raises:
        UsageError: names it.
    """
    seen: dict[str, Any] = {}
    for tool in own:
        code = _code(tool)
        if seen.setdefault(tool.name, code) is not code:
            raise UsageError(
                f"Two different tools are called {tool.name!r}.", cure="Rename one of them."
            )


def check_names(names: Iterable[str]) -> None:
    """Refuse helpers that nobody can call by their name.

    Raises:
        UsageError: a name is empty, has blanks around it, or is there twice.
    """
    seen: set[str] = set()
    for name in names:
        if not name.isprintable() or name.strip() != name or not name:
            raise UsageError(
                f"{name!r} is no name for a sub-agent.", cure='Give one like "researcher".'
            )
        if name in seen:
            raise UsageError(
                f"Two sub-agents are called {name!r}.", cure="Give each a name of its own."
            )
        seen.add(name)


def _code(tool: BaseTool) -> Any:
    """What tells two tools apart: the function that was handed in, else the tool itself."""
    if not isinstance(tool, StructuredTool):
        return tool
    return tool.func or tool.coroutine or tool


def _made(given: BaseTool | Callable[..., Any]) -> BaseTool:
    if isinstance(given, BaseTool):
        return given
    if not callable(given):
        raise UsageError(
            f"{given!r} is no tool.", cure="Give a name, a function or a LangChain tool."
        )
    if not inspect.getdoc(given):
        raise UsageError(
            f"The function {getattr(given, '__name__', given)!r} has no docstring.",
            cure="Write one: it tells the model what the tool does.",
        )
    if inspect.iscoroutinefunction(given):
        return StructuredTool.from_function(coroutine=given)
    return StructuredTool.from_function(func=given, coroutine=_threaded(given))


def _threaded(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function in a thread of its own, so that it cannot block the loop."""

    async def call(*args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(function, *args, **kwargs)

    return cast("Callable[..., Any]", call)


def _unknown(name: str, known: list[str]) -> UsageError:
    near = difflib.get_close_matches(name, known, n=1)
    cure = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(known)}."
    return UsageError(f"There is no tool {name!r}.", cure=cure)
