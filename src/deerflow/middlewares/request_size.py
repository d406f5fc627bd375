"""How large a request is and may be: counted here, corrected by what the provider told last."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, SystemMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from deerflow.agent.context import RunContext
from deerflow.models.protocol import ModelSpec
from deerflow.models.usage import estimate, estimate_text

UNKNOWN_WINDOW = 32_000
"""Tokens assumed when a model's window is not known: what most hosted and local models have."""
SHARE = 0.8
"""Of the room for a request that may be filled before it is compacted."""
RESERVE = 4_096
"""Tokens kept free for the answer when the model's largest answer is not known."""
LOWEST, HIGHEST = 0.4, 3.0
"""A reported size outside these shares of our own count is not believed."""


@dataclass(slots=True)
class Sizes:
    """Cursor of one run: tokens of what was counted already.

    Attributes:
        limit: tokens that a provider's refusal taught, None before one.
    """

    messages: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    tools: dict[str, int] = field(default_factory=dict[str, int])
    texts: dict[int, int] = field(default_factory=dict[int, int])
    limit: int | None = None
    _last: tuple[str | None, int, str | None, int] | None = None

    def grown(self, view: Sequence[AnyMessage]) -> int:
        """Tokens of a view; what it has in common with the one before is not looked at again."""
        done, total = 0, 0
        if self._last is not None:
            first, length, last, known = self._last
            same = len(view) >= length and view[0].id == first and view[length - 1].id == last
            done, total = (length, known) if same else (0, 0)
        total += self.of(view[done:])
        if view:
            self._last = (view[0].id, len(view), view[-1].id, total)
        return total

    def renew(self) -> None:
        """Messages are shown otherwise from now on."""
        self._last = None

    def of(self, messages: Sequence[AnyMessage]) -> int:
        """Tokens of messages; each is counted once a run."""
        return sum(self.one(message) for message in messages)

    def one(self, message: AnyMessage) -> int:
        """Tokens of a message."""
        content: Any = message.content
        # shortened copies have the id of their original
        key = (message.id or "", len(content) if isinstance(content, str) else -len(content))
        found = self.messages.get(key) if message.id else None
        if found is None:
            found = self.messages[key] = estimate([message])
        return found

    def of_tools(self, tools: Sequence[BaseTool | dict[str, Any]]) -> int:
        """Tokens of the schemas."""
        return sum(self._of_tool(tool) for tool in tools)

    def of_system(self, system: SystemMessage | None) -> int:
        """Tokens of the system text, which is the same object or text all through a run."""
        if system is None:
            return 0
        key = len(system.text)
        if key not in self.texts:
            self.texts[key] = estimate([system])
        return self.texts[key]

    def _of_tool(self, tool: BaseTool | dict[str, Any]) -> int:
        name = tool.name if isinstance(tool, BaseTool) else str(tool.get("name") or tool)
        found = self.tools.get(name)
        if found is None:
            schema = tool if isinstance(tool, dict) else convert_to_openai_tool(tool)
            found = self.tools[name] = estimate_text(json.dumps(schema, default=str))
        return found


def sizes_of(run: RunContext) -> Sizes:
    """The run's cursor, shared by all rows that count."""
    found = run.scratch.get(Sizes)
    if found is None:
        found = run.scratch[Sizes] = Sizes()
    return found


def room(spec: ModelSpec | None) -> int:
    """Tokens that a request to this model may have beside its answer.

    The answer's room is the model's `max_output`, at most a quarter of the window.
    """
    window = window_of(spec)
    answer = (spec.max_output if spec is not None else None) or RESERVE
    return window - min(answer, window // 4)


def window_of(spec: ModelSpec | None) -> int:
    """The model's window in tokens, UNKNOWN_WINDOW when nobody knows it."""
    return (spec.context_window if spec is not None else None) or UNKNOWN_WINDOW


def counted(view: Sequence[AnyMessage], own: int, first: int, sizes: Sizes) -> int:
    """Tokens of a request: the provider's own last number plus what came after, else our count.

    Args:
        view: its messages.
        own: our count of all of it.
        first: index from which replies came to requests that were built like this one.
        sizes: of the run.
    """
    for index in range(len(view) - 1, first - 1, -1):
        message = view[index]
        usage = message.usage_metadata if isinstance(message, AIMessage) else None
        if usage and usage["input_tokens"]:
            since = sizes.of(view[index:])
            told = usage["input_tokens"]
            return (
                told + since if LOWEST * (own - since) <= told <= HIGHEST * (own - since) else own
            )
    return own
