"""Calls tools as the kernel does, on any sandbox, and keeps the state that they update."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command

from deerflow.tools.registry import builtin_tools


@dataclass
class Context:
    """What a run gives to its tools."""

    files: Any
    user_id: str = "u"
    thread_id: str = "t"
    thread_key: str = "k"
    run_id: str = "r"
    agent: str = "lead"
    is_alone: bool = True
    blobs: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    async def sandbox(self) -> Any:
        return self.files

    def alone(self, tool_call_id: str) -> bool:
        return self.is_alone

    def emit(self, type: str, payload: dict[str, Any]) -> None:
        self.events.append((type, payload))

    async def put_blob(self, data: bytes, media_type: str) -> str:
        digest = hashlib.sha256(data).hexdigest()
        self.blobs[digest] = (data, media_type)
        return digest


@dataclass
class ToolRun:
    """One run that calls tools by name."""

    files: Any
    tools: list[BaseTool] = field(default_factory=builtin_tools)
    state: dict[str, Any] = field(default_factory=dict)
    last: ToolMessage | None = None

    def __post_init__(self) -> None:
        self.context = Context(self.files)
        self._by_name = {tool.name: tool for tool in self.tools}

    async def __call__(self, name: str, /, **args: Any) -> str:
        """Text of the result; state updates are merged (mappings by key, the rest replaced)."""
        tool: Any = self._by_name[name]
        fields = tool.tool_call_schema.model_validate(args)
        values = {key: getattr(fields, key) for key in type(fields).model_fields}
        result = await tool.coroutine(**values, runtime=self.runtime())
        if isinstance(result, Command):
            update = dict(result.update)
            [result] = update.pop("messages")
            self._merge(update)
        if isinstance(result, str):
            result = ToolMessage(content=result, tool_call_id="c1", name=name)
        assert result.tool_call_id == "c1"
        assert result.name == name
        self.last = result
        return str(result.content)

    def runtime(self) -> ToolRuntime[Any, Any]:
        options: dict[str, Any] = {
            "state": self.state,
            "context": self.context,
            "config": {},
            "stream_writer": _ignore,
            "tool_call_id": "c1",
            "store": None,
        }
        return ToolRuntime(**options)

    def _merge(self, update: dict[str, Any]) -> None:
        for channel, value in update.items():
            old = self.state.get(channel)
            if isinstance(value, dict) and isinstance(old, dict):
                value = {**old, **value}
            self.state[channel] = value


_ignore: Callable[[Any], None] = lambda _: None  # noqa: E731
