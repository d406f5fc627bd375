"""Makes the tool calls of a finished AI message legal, whoever wrote it."""

from __future__ import annotations

from typing import Any, cast

from langchain_core.messages import AIMessage, AIMessageChunk, ToolCall, message_chunk_to_message

from deerflow.models.private import BAD_CALLS
from deerflow.models.toolcalls import UNNAMED, fresh_id, parse_arguments


def settle(message: AIMessage) -> AIMessage:
    """The message with legal calls only: `invalid_tool_calls` empty, ids present and unique in it.

    A malformed call becomes a legal one with arguments {} and an entry in
    `additional_kwargs["deerflow_bad_calls"]` (position as text → what is wrong). A message that is
    legal already comes back as it is.
    """
    strict = _strict_chunks(message) if isinstance(message, AIMessageChunk) else None
    if isinstance(message, AIMessageChunk):
        message = cast("AIMessage", message_chunk_to_message(message))
    bad: dict[str, str] = dict(message.additional_kwargs.get(BAD_CALLS) or {})
    calls = strict[0] if strict else list(message.tool_calls)
    if strict:
        bad |= strict[1]
    else:
        _append_invalid(message, calls, bad)
    legal = _legal_ids(calls, bad)
    if legal == message.tool_calls and not message.invalid_tool_calls:
        return message
    extra = {**message.additional_kwargs, **({BAD_CALLS: bad} if bad else {})}
    extra.pop("tool_calls", None)
    return message.model_copy(
        update={"tool_calls": legal, "invalid_tool_calls": [], "additional_kwargs": extra}
    )


def _append_invalid(message: AIMessage, calls: list[ToolCall], bad: dict[str, str]) -> None:
    for invalid in message.invalid_tool_calls:
        text = invalid.get("args") or ""
        problem = parse_arguments(text)[1] or invalid.get("error") or "The call is malformed."
        bad[str(len(calls))] = problem
        calls.append(
            {
                "name": invalid.get("name") or UNNAMED,
                "args": {},
                "id": invalid.get("id") or "",
                "type": "tool_call",
            }
        )


def _legal_ids(calls: list[ToolCall], bad: dict[str, str]) -> list[ToolCall]:
    used: set[str] = set()
    legal: list[ToolCall] = []
    for position, call in enumerate(calls):
        wrong = str(position) in bad
        if not call["name"]:
            bad.setdefault(str(position), "The call names no tool.")
        new = fresh_id(call["id"] or "", used)
        if new != call["id"] or not call["name"] or (wrong and call["args"]):
            args: dict[str, Any] = {} if wrong else call["args"]
            call = ToolCall(name=call["name"] or UNNAMED, args=args, id=new, type="tool_call")
        legal.append(call)
    return legal


def _strict_chunks(message: AIMessageChunk) -> tuple[list[ToolCall], dict[str, str]] | None:
    """Calls read from the raw text: LangChain mends half-written JSON, which must not run."""
    if not message.tool_call_chunks:
        return None
    calls: list[ToolCall] = []
    bad: dict[str, str] = {}
    for position, chunk in enumerate(message.tool_call_chunks):
        args, problem = parse_arguments(chunk["args"] or "")
        if problem:
            bad[str(position)] = problem
        calls.append(
            ToolCall(name=chunk["name"] or "", args=args, id=chunk["id"] or "", type="tool_call")
        )
    return calls, bad
