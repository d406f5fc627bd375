"""Row 5: in what is sent, each call has one result, in call order, directly after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from deerflow.agent.hooks import Middleware, ModelCall, ModelNext, ModelReply

INTERRUPTED = (
    "Error: this call was interrupted and left no result. Whether it took effect is unknown; "
    "check before you repeat it."
)
MALFORMED = (
    "Error: the arguments of this call were not valid JSON, so it was not run. "
    "Call again with valid arguments."
)


class DanglingToolCallMiddleware(Middleware):
    """Repairs foreign damage on the way to the model; the stored history is never rewritten."""

    async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
        """Hand on a legal transcript; a legal one passes as the same list object."""
        if is_legal(call.messages):
            return await next_(call)
        return await next_(call.with_(messages=repaired(call.messages)))


def is_legal(messages: Sequence[AnyMessage]) -> bool:
    """Whether results follow their calls directly, in order, one each, and stand nowhere else."""
    index, count = 0, len(messages)
    while index < count:
        message = messages[index]
        index += 1
        if isinstance(message, ToolMessage):
            return False
        if not isinstance(message, AIMessage):
            continue
        if message.invalid_tool_calls:
            return False
        for call in message.tool_calls:
            result = messages[index] if index < count else None
            answered = isinstance(result, ToolMessage) and result.tool_call_id == call["id"]
            if not answered or not call["id"]:
                return False
            index += 1
    return True


@dataclass(slots=True)
class _Row:
    """A message that is no result, the results of its calls, index of the first malformed call."""

    message: AnyMessage
    results: list[ToolMessage | None]
    malformed: int = 0


def repaired(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """A legal transcript of the same messages; the same input gives the same output.

    A result goes to the nearest earlier call of its id that has none; the first wins. Results
    without a call are dropped, calls without a result get one that says so, malformed calls become
    legal ones, all others keep their order.
    """
    rows: list[_Row] = []
    for position, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            _attach(message, rows)
        elif isinstance(message, AIMessage):
            legal = _with_legal_calls(message, position)
            count = len(legal.tool_calls)
            rows.append(_Row(legal, [None] * count, count - len(message.invalid_tool_calls)))
        else:
            rows.append(_Row(message, []))
    out: list[AnyMessage] = []
    for row in rows:
        out.append(row.message)
        out.extend(result or _missing(row, index) for index, result in enumerate(row.results))
    return out


def _attach(result: ToolMessage, rows: list[_Row]) -> None:
    for row in reversed(rows):
        if not isinstance(row.message, AIMessage):
            continue
        for index, call in enumerate(row.message.tool_calls):
            if call["id"] == result.tool_call_id and row.results[index] is None:
                row.results[index] = result
                return


def _with_legal_calls(message: AIMessage, position: int) -> AIMessage:
    if not message.invalid_tool_calls and all(call["id"] for call in message.tool_calls):
        return message
    calls: list[Any] = list(message.tool_calls)
    for broken in message.invalid_tool_calls:
        calls.append(
            {
                "name": broken["name"] or "unknown",
                "args": {},
                "id": broken["id"],
                "type": "tool_call",
            }
        )
    owner = message.id or position
    named = [{**call, "id": call["id"] or f"call_{owner}_{at}"} for at, call in enumerate(calls)]
    return message.model_copy(update={"tool_calls": named, "invalid_tool_calls": []})


def _missing(row: _Row, index: int) -> ToolMessage:
    assert isinstance(row.message, AIMessage)  # noqa: S101 - rows with results hold an AI message
    call = row.message.tool_calls[index]
    return ToolMessage(
        content=INTERRUPTED if index < row.malformed else MALFORMED,
        name=call["name"],
        tool_call_id=call["id"] or "",
        status="error",
        id=f"{row.message.id}.{index}",
    )
