"""Tools with lean schemas: no titles, no defaults, forgiving towards weak models."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, cast

from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command
from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema

from deerflow.tools.protocol import ToolContext, ToolMarks

Runtime = ToolRuntime[ToolContext, Any]
"""What a tool is handed by the kernel."""


def _empty(value: Any) -> Any:
    return "" if value is None else value


def _off(value: Any) -> Any:
    return False if value is None else value


def _listed(value: Any) -> Any:
    """A list that came as JSON text, as one text, or as null."""
    if value is None:
        return []
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except ValueError:
            return [value]
    return [value] if value else []


def _nothing() -> None:
    return None


# a default factory, unlike a default, leaves no trace in the schema that the model is sent
Text = Annotated[str, BeforeValidator(_empty)]
"""Optional text, "" when left out (null counts as left out)."""
Number = Annotated[int | None, WithJsonSchema({"type": "integer"})]
"""Optional whole number, None when left out."""
Flag = Annotated[bool, BeforeValidator(_off)]
"""Optional switch, off when left out."""
Names = Annotated[list[str], BeforeValidator(_listed)]
"""List of texts."""
Listed = BeforeValidator(_listed)
"""Reads a list that a model wrote as text."""


def optional(factory: Callable[[], Any] = _nothing) -> Any:
    """Field with a default that the schema does not mention."""
    return Field(default_factory=factory)


def make_tool(
    name: str,
    description: str,
    args: type[BaseModel],
    coroutine: Callable[..., Awaitable[Any]],
    marks: ToolMarks,
) -> StructuredTool:
    """A LangChain tool.

    Args:
        name: as the model calls it.
        description: what the model reads; every byte is sent with every request.
        args: arguments that the model gives.
        coroutine: takes them and `runtime: Runtime`.
        marks: see `ToolMarks`.
    """
    return StructuredTool.from_function(
        coroutine=coroutine,
        name=name,
        description=description,
        args_schema=args,
        metadata={"deerflow": dict(marks)},
    )


def answer(
    name: str,
    runtime: Runtime,
    content: str,
    update: Mapping[str, Any] | None = None,
    **message: Any,
) -> ToolMessage | Command[Any]:
    """The result of a call, with a state update where there is one.

    Args:
        name: of the tool.
        runtime: of the call.
        content: what the model reads.
        update: channels of the thread state.
        message: further fields of the ToolMessage (artifact, additional_kwargs).
    """
    result = ToolMessage(
        content=content, name=name, tool_call_id=runtime.tool_call_id or "", **message
    )
    if not update:
        return result
    return Command(update={**update, "messages": [result]})


def state_of(runtime: Runtime) -> dict[str, Any]:
    """The thread state as a mapping."""
    return cast("dict[str, Any]", runtime.state or {})
