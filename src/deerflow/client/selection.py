"""What a caller names as tools: built-in names, functions, and LangChain tools."""

from __future__ import annotations

import asyncio
import difflib
import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any, cast

from langchain_core.tools import BaseTool, StructuredTool

from deerflow.errors import UsageError
from deerflow.tools.registry import builtin_tools

ALIASES = {"sandbox-python": "python", "sandbox-bash": "bash"}
"""Names that the public articles use → ours."""

RESERVED = frozenset({"task", "task_batch", "load_skill", "tool_search"})
"""Tools that the harness adds to every agent that needs them."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_UNSENDABLE = re.compile("[\x00\ud800-\udfff]")

Given = str | BaseTool | Callable[..., Any]


def names_and_tools(
    given: Iterable[Given], known: Iterable[str] = ()
) -> tuple[tuple[str, ...], list[BaseTool]]:
    """The names that an agent may use, and the tools among them that are the caller's own.

    Args:
        given: names of built-in or configured tools, functions with type hints, LangChain tools.
        known: names of further tools that may be named.

    Raises:
        UsageError: a name that nobody has, with the nearest one; something that is no tool; a tool
            with the name of a built-in or configured one, or with one that models do not take.
    """
    if isinstance(given, str):
        raise UsageError("The tools are a list, not one text.", cure=f"Write: [{given!r}].")
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
            _check_name(name, {*builtin, *RESERVED}, known)
            own.append(made)
        names.append(name)
    return tuple(dict.fromkeys(names)), own


def check_text(text: str, what: str) -> None:
    """Refuse a text that no request and no store can hold.

    Raises:
        UsageError: NUL, or half a surrogate pair.
    """
    if _UNSENDABLE.search(text):
        raise UsageError(
            f"{what} holds signs that are no text (NUL or half a surrogate pair).",
            cure="Leave them away.",
        )


def _check_name(name: str, builtin: Iterable[str], known: Iterable[str]) -> None:
    if name in builtin:
        raise UsageError(f"The tool {name!r} is built in.", cure="Give yours another name.")
    if name in known:
        raise UsageError(
            f"The tool {name!r} is configured (tools in config.yaml).",
            cure="Give yours another name.",
        )
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name of a tool.",
            cure="Models take up to 64 letters (a-z, A-Z), digits, hyphens and underscores.",
        )


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
    if not getattr(given, "__name__", ""):  # functools.partial, an object that can be called
        raise UsageError(
            f"{given!r} has no name.", cure="Define a function (def) with a docstring around it."
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
