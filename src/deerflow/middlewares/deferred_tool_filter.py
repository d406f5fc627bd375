"""Row 11: hides rarely needed tools until `tool_search` brings them in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

from langchain_core.tools import BaseTool
from pydantic import BaseModel

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import Middleware, ModelCall, ModelNext, ModelReply
from deerflow.config.schema import ToolSearchConfig
from deerflow.middlewares.delimiters import one_line
from deerflow.tools.protocol import ToolMarks
from deerflow.tools.schema import Runtime, answer, make_tool

TOOL = "tool_search"
NAMED = 60
"""Names of hidden tools that a search without a match lists."""

_WORD = re.compile(r"[^\W_]+", re.UNICODE)


class SearchArgs(BaseModel):
    """Arguments of tool_search."""

    query: str


class DeferredToolFilterMiddleware(Middleware):
    """Sends the schemas of the tools that are needed.

    Tools marked `deferred` are hidden: those of the configuration and of MCP servers, never the
    built-in ones. What a search finds stays callable in the thread.

    Args:
        config: `tool_search`.
    """

    def __init__(self, config: ToolSearchConfig) -> None:
        self._config = config
        self.tools: Sequence[BaseTool] = [self._tool()]

    async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
        """Take the hidden ones out; without any, the search as well."""
        hidden = [tool for tool in call.tools if is_deferred(tool)]
        call.run.scratch[DeferredToolFilterMiddleware] = hidden
        if not hidden:
            kept = [tool for tool in call.tools if name_of(tool) != TOOL]
            return await next_(call.with_(tools=kept))
        promoted = set(cast("list[str]", call.state.get("promoted_tools") or ()))
        kept = [t for t in call.tools if not is_deferred(t) or name_of(t) in promoted]
        return await next_(call.with_(tools=kept))

    def _tool(self) -> BaseTool:
        async def tool_search(query: str, runtime: Runtime) -> Any:
            run = cast("RunContext", runtime.context)
            hidden = cast("list[BaseTool]", run.scratch.get(DeferredToolFilterMiddleware) or [])
            found = ranked(query, hidden)[: self._config.auto_promote_top_k]
            if not found:
                names = ", ".join(sorted(tool.name for tool in hidden)[:NAMED])
                text = f"No further tool fits {one_line(query, 80)!r}. There is: {names}."
                return answer(TOOL, runtime, text)
            lines = [f"- {tool.name}: {one_line(tool.description, 200)}" for tool in found]
            text = "\n".join(["You can call these now:", *lines])
            return answer(TOOL, runtime, text, {"promoted_tools": [tool.name for tool in found]})

        description = "Find further tools by what they do; those found can be called next."
        return make_tool(TOOL, description, SearchArgs, tool_search, {"idempotent": True})


def is_deferred(tool: BaseTool | dict[str, Any]) -> bool:
    """Whether a tool is marked to be hidden."""
    if not isinstance(tool, BaseTool):
        return False
    marks = cast("ToolMarks", (tool.metadata or {}).get("deerflow") or {})
    return marks.get("deferred", False)


def name_of(tool: BaseTool | dict[str, Any]) -> str:
    """Name of a tool in either form."""
    if isinstance(tool, BaseTool):
        return tool.name
    return str(tool.get("function", tool).get("name", ""))


def ranked(query: str, tools: Sequence[BaseTool]) -> list[BaseTool]:
    """Tools that share words with a query, best first: names count three times, ties by name."""
    asked = set(_words(query))
    scored: list[tuple[float, str, BaseTool]] = []
    for tool in tools:
        name, about = set(_words(tool.name)), set(_words(tool.description))
        score = 3 * len(asked & name) + len(asked & (about - name))
        if tool.name.lower() in query.lower():
            score += 10
        if score:
            scored.append((-score, tool.name, tool))
    return [tool for _, _, tool in sorted(scored, key=lambda each: each[:2])]


def _words(text: str) -> list[str]:
    """Lower-case words, plural endings cut; each CJK character is a word."""
    found: list[str] = []
    for word in _WORD.findall(text.lower()):
        if word.isascii():
            found.append(word[:-1] if len(word) > 3 and word.endswith("s") else word)
        else:
            found.extend(word)
    return found
