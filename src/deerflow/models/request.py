"""Turns LangChain messages and tools into the JSON of a chat-completions request."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import orjson
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    SystemMessage,
    ToolMessage,
    convert_to_openai_data_block,
    is_data_content_block,
)
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from deerflow.models.private import CALL_FIELDS, MESSAGE_FIELDS, REASONING_KEY

Wire = dict[str, Any]


class PreparedTools(list[Wire]):
    """Tool schemas as JSON values, with their bytes made once."""

    def __init__(self, tools: Sequence[Wire]) -> None:
        super().__init__(tools)
        self.encoded = orjson.Fragment(orjson.dumps(tools))


def prepare_tools(
    tools: Sequence[Wire | type | Callable[..., Any] | BaseTool], *, strict: bool | None = None
) -> PreparedTools:
    """Schemas of any kind of LangChain tool in the shape of the endpoint."""
    return PreparedTools([convert_to_openai_tool(tool, strict=strict) for tool in tools])


def wire_choice(choice: Any, tools: Sequence[Wire]) -> Any:
    """The endpoint's word for a tool choice ("any", True, a tool name, or already its own)."""
    if choice is True or choice == "any":
        return "required"
    if isinstance(choice, str) and choice not in ("auto", "none", "required"):
        names = {tool.get("function", {}).get("name") for tool in tools}
        return {"type": "function", "function": {"name": choice}} if choice in names else choice
    return choice


def call_options(options: Mapping[str, Any]) -> Wire:
    """Body fields of one call's keyword arguments; LangChain's own (`ls_…`) are left out."""
    kept = {
        name: value
        for name, value in options.items()
        if value is not None and not name.startswith("ls_") and name != "stream_usage"
    }
    if "tools" in kept and not kept["tools"]:  # endpoints refuse an empty list
        kept.pop("tools")
        kept.pop("tool_choice", None)
    return kept


def wire_messages(messages: Sequence[BaseMessage]) -> list[Wire]:
    """Messages as the endpoint wants them; the same messages give the same bytes."""
    return [_message(message) for message in messages]


def encode(body: Wire) -> bytes:
    """JSON bytes of a request; text that is not valid UTF-8 is made so instead of refused."""
    tools = body.get("tools")
    try:
        if isinstance(tools, PreparedTools):
            return orjson.dumps({**body, "tools": tools.encoded})
        return orjson.dumps(body)
    except TypeError:  # lone surrogates or integers beyond 64 bits, from a tool or an old history
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), default=str)
        return text.encode("utf-8", "replace")


def _message(message: BaseMessage) -> Wire:
    if isinstance(message, AIMessage):
        return _assistant(message)
    if isinstance(message, ToolMessage):
        return {
            "role": "tool",
            "tool_call_id": message.tool_call_id,
            "content": _plain(message.content),
        }
    if isinstance(message, SystemMessage):
        return {"role": "system", "content": _plain(message.content)}
    role = message.role if isinstance(message, ChatMessage) else "user"
    return {"role": role, "content": _content(message.content)}


def _assistant(message: AIMessage) -> Wire:
    content = message.content
    text = content if isinstance(content, str) else _plain(content)
    wire: Wire = {"role": "assistant", "content": text}
    extra = message.additional_kwargs
    if message.tool_calls:
        private: Mapping[str, Wire] = extra.get(CALL_FIELDS) or {}
        wire["content"] = text or None
        wire["tool_calls"] = [
            _call(call, private.get(str(index)) if private else None)
            for index, call in enumerate(message.tool_calls)
        ]
    if extra:
        reasoning = extra.get("reasoning_content")
        if reasoning:
            wire[extra.get(REASONING_KEY) or "reasoning_content"] = reasoning
        for name in MESSAGE_FIELDS & extra.keys():
            wire[name] = extra[name]
    return wire


def _call(call: Mapping[str, Any], private: Wire | None) -> Wire:
    wire: Wire = {
        "id": call["id"],
        "type": "function",
        "function": {"name": call["name"], "arguments": _arguments(call["args"])},
    }
    if private:
        wire["function"].update(private.get("function") or {})
        wire.update({name: value for name, value in private.items() if name != "function"})
    return wire


def _arguments(args: Any) -> str:
    if not args:
        return "{}"
    try:
        return orjson.dumps(args).decode()
    except TypeError:
        return json.dumps(args, default=str)


def _plain(content: str | list[str | Wire]) -> str:
    """Text of a content whose role takes text only; quirks replaced other parts before."""
    if isinstance(content, str):
        return content
    parts = [part if isinstance(part, str) else part.get("text") for part in content]
    return "\n".join(part for part in parts if isinstance(part, str) and part)


def _content(content: str | list[str | Wire]) -> str | list[Wire]:
    if isinstance(content, str):
        return content
    return [_part(part) for part in content]


def _part(part: str | Wire) -> Wire:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if part.get("type") == "text":
        return {"type": "text", "text": part.get("text", "")}
    source = part.get("source")
    if part.get("type") == "image" and isinstance(source, dict):  # Anthropic's own shape
        fields = cast("dict[str, str]", source)
        url = fields.get("url") or f"data:{fields.get('media_type')};base64,{fields.get('data')}"
        return {"type": "image_url", "image_url": {"url": url}}
    if is_data_content_block(part):
        return convert_to_openai_data_block(part)
    return part
