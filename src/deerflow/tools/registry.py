"""Which tools the agent has: the built-in ones, and those that the configuration adds."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Collection, Sequence
from typing import Any, cast

from langchain_core.tools import BaseTool

from deerflow.config.schema import ToolConfig
from deerflow.errors import ConfigError
from deerflow.tools.calculator import calculator_tools
from deerflow.tools.dialogue import dialogue_tools
from deerflow.tools.files import file_tools
from deerflow.tools.image import image_tools
from deerflow.tools.limits import ToolLimits
from deerflow.tools.listing import listing_tools
from deerflow.tools.shell import shell_tools

BUILTIN = "builtin:"
"""Prefix of `tools[].use` that names a built-in tool; those are always on."""


def builtin_tools(limits: ToolLimits | None = None, *, vision: bool = True) -> list[BaseTool]:
    """The tools of the harness itself, in the order in which the model sees them.

    Args:
        limits: how much they show at once.
        vision: whether the model takes images (view_image).
    """
    limits = limits or ToolLimits()
    return [
        *shell_tools(),
        *listing_tools(limits),
        *file_tools(limits),
        *(image_tools() if vision else ()),
        *dialogue_tools(),
        *calculator_tools(),
    ]


def get_available_tools(
    config: Sequence[ToolConfig] = (),
    *,
    groups: Collection[str] | None = None,
    limits: ToolLimits | None = None,
    vision: bool = True,
    deferred: bool = False,
) -> list[BaseTool]:
    """Built-in tools, then the configured ones in the order of the file.

    Args:
        config: the section `tools`. `use: module:variable` is a tool, a tool class or a function
            that makes one; further keys of the entry are its arguments.
        groups: groups that the agent may use, None for all; entries without a group are always in.
        limits: how much built-in tools show at once.
        vision: whether the model takes images.
        deferred: whether configured tools are hidden until `tool_search` finds them.

    Raises:
        ConfigError: names each entry that cannot be loaded or whose name is taken.
    """
    tools = {tool.name: tool for tool in builtin_tools(limits, vision=vision)}
    builtin = {tool.name for tool in builtin_tools(limits)}
    problems: list[str] = []
    for index, entry in enumerate(config):
        where = f"tools[{index}] ({entry.name})"
        if entry.use.startswith(BUILTIN):
            problems += _unknown_builtin(where, entry.use.removeprefix(BUILTIN), builtin)
            continue
        if groups is not None and entry.group is not None and entry.group not in groups:
            continue
        if entry.name in tools or entry.name in builtin:
            problems.append(f"{where}: the name is taken; give the tool another name")
            continue
        try:
            tool = _load(entry)
            tools[entry.name] = _hidden(tool) if deferred else tool
        except (ImportError, AttributeError, TypeError, ValueError, SyntaxError) as error:
            problems.append(f"{where}: use: {entry.use}: {error}")
    if problems:
        raise ConfigError(problems, cure="`use` is module:variable of a LangChain tool.")
    return list(tools.values())


def _unknown_builtin(where: str, name: str, builtin: Collection[str]) -> list[str]:
    if name in builtin:
        return []
    near = difflib.get_close_matches(name, builtin, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(sorted(builtin))}"
    return [f"{where}: no built-in tool is called {name!r}; {hint}"]


def _hidden(tool: BaseTool) -> BaseTool:
    metadata = tool.metadata or {}
    marks = {**metadata.get("deerflow", {}), "deferred": True}
    return tool.model_copy(update={"metadata": {**metadata, "deerflow": marks}})


def _load(entry: ToolConfig) -> BaseTool:
    module, _, variable = entry.use.partition(":")
    if not module or not variable:
        raise ValueError("expected module:variable")
    found: Any = importlib.import_module(module)
    for part in variable.split("."):
        found = getattr(found, part)
    extras = dict(entry.model_extra or {})
    if isinstance(found, BaseTool):
        tool = found
    elif callable(found):
        tool = cast("Any", found)(**extras)
    else:
        tool = found
    if not isinstance(tool, BaseTool):
        raise TypeError(f"is a {type(tool).__name__}, not a LangChain tool")
    return tool if tool.name == entry.name else tool.model_copy(update={"name": entry.name})
