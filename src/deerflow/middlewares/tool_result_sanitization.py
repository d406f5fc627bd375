"""Row 22: results from outside are framed as untrusted; control sequences go."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import Middleware, ToolNext, ToolResult
from deerflow.agent.journal import marks_of
from deerflow.middlewares.delimiters import UNTRUSTED_TAG, block
from deerflow.middlewares.results import rewrite

_TERMINAL = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    "|\x1b[P\\]X^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)"  # OSC, DCS, APC: title, clipboard
    "|\x1b[ -/]*[0-~]"  # two-character escapes
    "|\x9b[0-?]*[ -/]*[@-~]"  # CSI in one byte
)
_BREAKING = re.compile("[\x00\x1b\ud800-\udfff]")
_CONTROL = re.compile(
    "[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
    "\u200b-\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""C0 and C1 except tab and line ends, zero-width signs, bidirectional overrides, tag letters."""

_JOINED = re.compile(
    "(?<=[\u0600-\u0dff\u1000-\u109f\U0001f000-\U0001faff\u2600-\u27bf\ufe0f])[\u200c\u200d]"
)
"""Joiners that scripts and emoji need; everywhere else they only hide text."""

_SPILLED = (".tool-results/", ".history/")
_SOURCES = ("url", "query", "uri")


class ToolResultSanitizationMiddleware(Middleware):
    """Frames results of tools with the mark `untrusted` (web, MCP) with their source.

    Other results lose only what breaks a terminal or cannot be stored. What was moved to the spill
    folder, or is kept of a compacted conversation, counts as untrusted when it is read back.
    """

    closes = True

    async def tool(self, request: ToolCallRequest, next_: ToolNext, run: RunContext) -> ToolResult:
        """Clean the messages of the result."""
        result = await next_(request)
        if marks_of(request).get("untrusted") or _reads_spill(request):
            change = partial(_framed, source=_source(request))
        else:
            change = plain
        return await rewrite(result, partial(_changed, change=change))


def plain(text: str) -> str:
    """The text without terminal sequences, NUL and lone surrogates; otherwise byte for byte."""
    if not _BREAKING.search(text) and "\x9b" not in text:
        return text
    return _BREAKING.sub("", _TERMINAL.sub("", text))


def clean(text: str) -> str:
    """`plain`, and without any sign that hides or reorders text."""
    text = plain(text)
    if not _CONTROL.search(text):
        return text
    kept = {match.start() for match in _JOINED.finditer(text)}
    return _CONTROL.sub(lambda match: match[0] if match.start() in kept else "", text)


def _framed(text: str, *, source: str) -> str:
    return block(UNTRUSTED_TAG, clean(text), source=source)


def _source(request: ToolCallRequest) -> str:
    args = request.tool_call["args"]
    detail = next((args[key] for key in _SOURCES if isinstance(args.get(key), str)), "")
    return f"{request.tool_call['name']} {detail}".strip()


def _reads_spill(request: ToolCallRequest) -> bool:
    path = request.tool_call["args"].get("path")
    return isinstance(path, str) and any(folder in path for folder in _SPILLED)


async def _changed(message: ToolMessage, *, change: Callable[[str], str]) -> ToolMessage:
    content: Any = message.content
    if isinstance(content, str):
        text = change(content)
        return message if text == content else message.model_copy(update={"content": text})
    parts = [_changed_part(part, change) for part in cast("list[Any]", content)]
    return message if parts == content else message.model_copy(update={"content": parts})


def _changed_part(part: Any, change: Callable[[str], str]) -> Any:
    if isinstance(part, str):
        return change(part)
    if part.get("type") == "text":
        return {**part, "text": change(str(part.get("text", "")))}
    return part
