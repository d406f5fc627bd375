"""Row 21: a long result goes to a file; head, tail, size and handle stay."""

from __future__ import annotations

import asyncio
import hashlib
import re
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import Middleware, ToolNext, ToolResult
from deerflow.config.schema import ToolOutputConfig
from deerflow.errors import SandboxError
from deerflow.middlewares.results import rewrite
from deerflow.sandbox.protocol import WORKSPACE

SPILL = "deerflow_spill"
"""additional_kwargs of a result: virtual path of the file that holds the whole of it."""


@dataclass(frozen=True, slots=True)
class _Limits:
    """Characters: what may stay whole, and what stays of a longer text."""

    whole: int
    head: int
    tail: int


class ToolOutputBudgetMiddleware(Middleware):
    """Keeps what the model is sent bounded, and the whole text readable in slices.

    Args:
        config: `tool_output`.
    """

    closes = True

    def __init__(self, *, config: ToolOutputConfig) -> None:
        self._config = config
        self._general = _Limits(
            config.externalize_min_chars, config.preview_head_chars, config.preview_tail_chars
        )
        self._folder = f"{WORKSPACE}/{config.storage_subdir.strip('/')}"

    async def tool(self, request: ToolCallRequest, next_: ToolNext, run: RunContext) -> ToolResult:
        """Move long texts of the result to a file."""
        result = await next_(request)
        name = request.tool_call["name"]
        if not self._config.enabled or name in self._config.exempt_tools:
            return result
        return await rewrite(result, partial(self._bounded, name=name, run=run))

    async def _bounded(self, message: ToolMessage, *, name: str, run: RunContext) -> ToolMessage:
        text = _text(message)
        limits = self._limits(name)
        if len(text) <= limits.whole:
            return message
        known = message.additional_kwargs.get(SPILL)  # the tool has spilled it already (bash)
        path = known if isinstance(known, str) else await self._store(name, text, run)
        if path is None:
            config = self._config
            limits = _Limits(
                config.fallback_max_chars, config.fallback_head_chars, config.fallback_tail_chars
            )
            if len(text) <= limits.whole:
                return message
            return _replaced(
                message, _cut(text, limits, "It could not be stored; ask for less."), {}
            )
        note = f"Whole text: {path}; read it in windows with read_file, or search it with grep."
        return _replaced(message, _cut(text, limits, note), {SPILL: path})

    def _limits(self, name: str) -> _Limits:
        own = self._config.tool_overrides.get(name)
        if own is None:
            return self._general
        return _Limits(
            _either(own.externalize_min_chars, self._general.whole),
            _either(own.preview_head_chars, self._general.head),
            _either(own.preview_tail_chars, self._general.tail),
        )

    async def _store(self, name: str, text: str, run: RunContext) -> str | None:
        """Virtual path of the stored text, None when the disk refuses.

        The name comes from the text: a replay meets its old file, and row 14 can tell that a
        repeated call brought nothing new.
        """
        data = text.encode("utf-8", "backslashreplace")
        digest = (await asyncio.to_thread(hashlib.sha256, data)).hexdigest()
        safe = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:40]
        path = f"{self._folder}/{safe}-{digest[:10]}.txt"
        try:
            await (await run.sandbox()).write(path, data)
        except SandboxError:
            return None
        return path


def _either(value: int | None, default: int) -> int:
    return default if value is None else value


def _text(message: ToolMessage) -> str:
    content: Any = message.content
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, map(_part_text, cast("list[Any]", content))))


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    return str(part.get("text", "")) if part.get("type") == "text" else ""


def _cut(text: str, limits: _Limits, note: str) -> str:
    """Head and tail; the note stands after both, outside a frame that row 22 put around them."""
    head = text[: limits.head]
    tail = text[len(text) - limits.tail :] if limits.tail else ""
    left_out = len(text) - len(head) - len(tail)
    gap = f"[… {left_out:,} of {len(text):,} characters left out here …]"
    return f"{head}\n\n{gap}\n\n{tail}\n\n[{note}]"


def _replaced(message: ToolMessage, text: str, extra: dict[str, Any]) -> ToolMessage:
    """A copy with one bounded text; parts that are no text (images) stay, the raw artifact goes."""
    content: Any = message.content
    if not isinstance(content, str):
        rest = [part for part in cast("list[Any]", content) if not _part_text(part)]
        content = [{"type": "text", "text": text}, *rest] if rest else text
    else:
        content = text
    return message.model_copy(
        update={
            "content": content,
            "additional_kwargs": {**message.additional_kwargs, **extra},
            "artifact": None,
        }
    )
