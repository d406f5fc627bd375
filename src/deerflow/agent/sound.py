"""Makes a reply storable and sendable, whatever the model put into it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, cast
from uuid import uuid4

import orjson
from langchain_core.messages import AIMessage, ToolCall
from langchain_core.tools import BaseTool

from deerflow.agent.calls import BAD_CALLS

DEPTH: Final = 100
"""Levels of lists and objects in arguments; encoders give up near 250."""
_LEAST, _MOST = -(2**63), 2**64 - 1
_HALF: Final = re.compile("[\ud800-\udfff]")
_NAME: Final = re.compile(r"[\w-]{1,64}", re.ASCII)
_NO_NAME: Final = re.compile(r"[^\w-]+", re.ASCII)
_ID: Final = re.compile(r"[!-~]{1,256}")


Offered = Sequence[BaseTool | dict[str, Any]]


def sound(message: AIMessage, tools: Offered) -> AIMessage:
    """The message, or a copy without what no store or provider takes; mostly the same object.

    A call whose arguments cannot be kept becomes one without arguments and with the reason in
    `BAD_CALLS`. The name of a tool that was not offered becomes one that providers accept in a
    history (letters, digits, `_` and `-`, at most 64 characters), an unusable id a new one.

    Args:
        message: as the model gave it.
        tools: the offered tools, whose names stay whatever they hold.
    """
    calls = [_call(call, tools) for call in message.tool_calls]
    if calls == message.tool_calls and _encodable(message):
        return message
    extra = cast("dict[str, Any]", _plain(message.additional_kwargs))
    bad: dict[str, str] = dict(extra.get(BAD_CALLS) or {})
    for index, call in enumerate(calls):
        problem = _problem(call["args"])
        if problem:
            bad.setdefault(str(index), f"Not run: the arguments {problem}.")
            calls[index] = {**call, "args": {}}
    if bad:
        extra[BAD_CALLS] = bad
    return message.model_copy(
        update={
            "content": _plain(cast("Any", message).content),
            "tool_calls": calls,
            "additional_kwargs": extra,
            "response_metadata": _plain(message.response_metadata),
        }
    )


def _call(call: ToolCall, tools: Offered) -> ToolCall:
    name, id_ = call["name"], call["id"] or ""
    if not _NAME.fullmatch(name) and name not in map(_offered, tools):
        name = _NO_NAME.sub("_", name)[:64].strip("_") or "unknown_tool"
    if id_ and not _ID.fullmatch(id_):
        id_ = f"call_{uuid4().hex[:24]}"
    return (
        call
        if (name, id_) == (call["name"], call["id"] or "")
        else call | ToolCall(name=name, args=call["args"], id=id_)
    )


def _offered(tool: BaseTool | dict[str, Any]) -> str:
    if isinstance(tool, dict):
        return str(cast("dict[str, Any]", tool.get("function", tool)).get("name", ""))
    return tool.name


def _encodable(message: AIMessage) -> bool:
    fields: list[Any] = [
        cast("Any", message).content,
        message.tool_calls,
        message.additional_kwargs,
        message.response_metadata,
    ]
    if _depth(fields) > DEPTH:
        return False
    try:
        orjson.dumps(fields, default=str, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        return False
    return True


def _depth(value: Any) -> int:
    """Levels of nesting, counted to just above DEPTH; without recursion."""
    level: list[Any] = [value]
    depth = 0
    while level and depth <= DEPTH:
        depth += 1
        level = [
            item
            for holder in level
            for item in cast("Any", holder.values() if isinstance(holder, dict) else holder)
            if isinstance(item, dict | list | tuple)
        ]
    return depth


def _problem(args: dict[str, Any]) -> str:
    """What of the arguments no encoder takes, "" when nothing; half characters in values may."""
    if _depth(args) > DEPTH:
        return f"are nested deeper than {DEPTH} levels"
    open_: list[Any] = [args]
    while open_:
        value = open_.pop()
        if isinstance(value, dict):
            fields = cast("dict[Any, Any]", value)
            if any(isinstance(key, str) and _HALF.search(key) for key in fields):
                return "hold half a character in a name"
            open_ += fields.values()
        elif isinstance(value, list | tuple):
            open_ += cast("list[Any]", value)
        elif isinstance(value, int) and not _LEAST <= value <= _MOST:
            return "hold a whole number beyond 64 bits; send it as text"
    return ""


def _plain(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        return _HALF.sub("\ufffd", value)
    if isinstance(value, int) and not _LEAST <= value <= _MOST:
        return str(value) if value.bit_length() < 10_000 else "…"
    if not isinstance(value, dict | list | tuple):
        return value
    if depth > DEPTH:
        return "…"
    if isinstance(value, dict):
        fields = cast("dict[Any, Any]", value)
        return {_plain(key): _plain(item, depth + 1) for key, item in fields.items()}
    return [_plain(item, depth + 1) for item in cast("list[Any]", value)]
