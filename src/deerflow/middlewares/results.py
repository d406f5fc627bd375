"""Results of tool calls as rows handle them: refusals, and changes to the messages inside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.types import Command

from deerflow.agent.hooks import ToolResult


def refusal(request: ToolCallRequest, text: str) -> ToolMessage:
    """The error result of a call that is not run, or that failed."""
    call = request.tool_call
    return ToolMessage(
        content=text, name=call["name"], tool_call_id=call["id"] or "", status="error"
    )


def messages_of(result: ToolResult) -> list[ToolMessage]:
    """The tool messages that a result carries."""
    if isinstance(result, ToolMessage):
        return [result]
    held = update_of(result).get("messages") or ()
    return [message for message in held if isinstance(message, ToolMessage)]


def update_of(result: ToolResult) -> dict[str, Any]:
    """The state update that a result carries, {} when none."""
    update: Any = None if isinstance(result, ToolMessage) else result.update
    return cast("dict[str, Any]", update) if isinstance(update, dict) else {}


async def rewrite(
    result: ToolResult, change: Callable[[ToolMessage], Awaitable[ToolMessage]]
) -> ToolResult:
    """The result with each of its tool messages changed; the same object when nothing changed."""
    if isinstance(result, ToolMessage):
        return await change(result)
    pairs = {id(message): await change(message) for message in messages_of(result)}
    if all(id(new) == old for old, new in pairs.items()):
        return result
    messages = [pairs.get(id(message), message) for message in update_of(result)["messages"]]
    return with_update(result, {**update_of(result), "messages": messages})


def with_update(result: Command[Any], update: dict[str, Any]) -> Command[Any]:
    """A copy of the command with another state update."""
    return replace(result, update=update)
