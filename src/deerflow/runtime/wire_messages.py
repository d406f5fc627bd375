"""Messages as clients send them: every shape of LangGraph's clients, made one and made sound."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, cast

import orjson
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from deerflow.errors import UsageError

MOST = 500
"""Messages of one request."""
LONGEST = 20 * 1024 * 1024
"""Bytes of one message as JSON; images come as data URLs."""
CLIENT_ID = "client_id"
"""additional_kwargs of a message that starts a run: the id that its client had given it."""

_TYPES = {
    "human": "human",
    "user": "human",
    "ai": "ai",
    "assistant": "ai",
    "aimessagechunk": "ai",
    "humanmessagechunk": "human",
    "tool": "tool",
    "system": "system",
    "developer": "system",
}
_OURS = "deerflow_"
"""Begins the marks that only we set; what a client sends under such a name is left out."""
_KEPT = ("content", "additional_kwargs", "id", "name", "tool_calls", "tool_call_id", "status")


def messages_of(given: Any) -> list[dict[str, Any]]:
    """Messages in one form: {type, content, additional_kwargs?, id?, name?, …}.

    Args:
        given: one message or a list; each a string, a pair (role, content) or an object with type
            or role.

    Raises:
        UsageError: what is given is none of these, with the place of it.
    """
    whole = cast("list[Any]", given) if isinstance(given, list) else [given]
    if len(whole) == 2 and isinstance(whole[0], str) and whole[0].lower() in _TYPES:
        whole = [whole]  # a single pair
    if len(whole) > MOST:
        raise UsageError(f"A request has at most {MOST} messages.")
    return [_message(item, f"messages[{index}]") for index, item in enumerate(whole)]


def said(message: Mapping[str, Any], ident: str | None = None) -> AnyMessage:
    """The LangChain message of one that `messages_of` gave.

    Args:
        message: {type, content, …}; without a type it is a human one.
        ident: its id in the thread; None keeps the client's or makes one.
    """
    extra = dict(message.get("additional_kwargs") or {})
    given = message.get("id")
    if ident is not None and given:
        extra[CLIENT_ID] = given
    facts: dict[str, Any] = {
        "content": message["content"],
        "id": ident or given or uuid.uuid4().hex,
        "additional_kwargs": extra,
    }
    if message.get("name"):
        facts["name"] = message["name"]
    kind = message.get("type", "human")
    if kind == "ai":
        return AIMessage(**facts, tool_calls=message.get("tool_calls") or [])
    if kind == "tool":
        status = "error" if message.get("status") == "error" else "success"
        return ToolMessage(**facts, tool_call_id=message["tool_call_id"], status=status)
    return SystemMessage(**facts) if kind == "system" else HumanMessage(**facts)


def is_clients(key: str) -> bool:
    """Whether a key of additional_kwargs is the client's to set, and not a mark of ours."""
    return key not in (CLIENT_ID, "uploads") and not key.startswith(_OURS)


def text_of(content: Any) -> str:
    """The text of a content: itself, or its text parts."""
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for part in cast("list[Any]", content):
        found: Any = part if isinstance(part, str) else part.get("text")
        if isinstance(found, str):
            texts.append(found)
    return "\n".join(texts)


def _message(item: Any, place: str) -> dict[str, Any]:
    if isinstance(item, str):
        item = {"type": "human", "content": item}
    elif isinstance(item, list | tuple):
        pair = cast("Sequence[Any]", item)
        if len(pair) != 2:
            raise UsageError(f"{place}: a pair is [role, content].")
        item = {"type": pair[0], "content": pair[1]}
    if not isinstance(item, dict):
        raise UsageError(f"{place}: a message is an object, a pair or a text.")
    raw = cast("dict[str, Any]", item)
    nested = raw.get("data")
    if "content" not in raw and isinstance(nested, dict):  # {type, data: {…}}
        raw = {"type": raw.get("type"), **cast("dict[str, Any]", nested)}
    named: Any = raw.get("type") or raw.get("role") or "human"
    kind = _TYPES.get(named.lower()) if isinstance(named, str) else None
    if kind is None:
        raise UsageError(
            f"{place}: there is no role {str(named)[:40]!r}.",
            cure="Use human, ai, tool or system.",
        )
    found = {key: raw[key] for key in _KEPT if raw.get(key) is not None}
    found["type"] = kind
    found["content"] = _content(raw.get("content", ""), place)
    found["additional_kwargs"] = _extra(raw.get("additional_kwargs"), place)
    _check_fields(found, place)
    return found


def _content(content: Any, place: str) -> Any:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise UsageError(f"{place}: content is text or a list of parts.")
    for index, part in enumerate(cast("list[Any]", content)):
        kind = cast("dict[str, Any]", part).get("type") if isinstance(part, dict) else None
        if not isinstance(part, str) and not isinstance(kind, str):
            raise UsageError(f"{place}.content[{index}]: a part is text or an object with a type.")
        if kind == "text" and not isinstance(cast("dict[str, Any]", part).get("text"), str):
            raise UsageError(f"{place}.content[{index}]: a text part has no text.")
    return cast("list[Any]", content)


def _extra(given: Any, place: str) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise UsageError(f"{place}: additional_kwargs is an object.")
    fields = cast("dict[str, Any]", given)
    return {key: value for key, value in fields.items() if is_clients(key)}


def _check_fields(found: dict[str, Any], place: str) -> None:
    for key in ("id", "name", "tool_call_id"):
        value = found.get(key)
        if value is not None and not (isinstance(value, str) and 0 < len(value) <= 255):
            raise UsageError(f"{place}: {key} is text of 1 to 255 characters.")
    if found["type"] == "tool" and "tool_call_id" not in found:
        raise UsageError(f"{place}: a tool message needs its tool_call_id.")
    if found["type"] != "ai":
        found.pop("tool_calls", None)
    elif "tool_calls" in found:
        found["tool_calls"] = _calls(found["tool_calls"], place)
    try:
        size = len(orjson.dumps(found))
    except (TypeError, ValueError, RecursionError):
        raise UsageError(f"{place}: it holds something that is no JSON or no text.") from None
    if size > LONGEST:
        raise UsageError(
            f"{place}: it has {size:,} bytes, at most {LONGEST:,} are taken.",
            cure="Upload the file and name it in the message.",
        )


def _calls(given: Any, place: str) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []
    for item in cast("list[Any]", given) if isinstance(given, list) else [None]:
        call = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        name, ident, args = call.get("name"), call.get("id"), call.get("args", {})
        sound = isinstance(name, str) and name and isinstance(ident, str) and ident
        if not sound or not isinstance(args, dict):
            raise UsageError(f"{place}: a tool call is {{id, name, args}}.")
        calls.append({"id": ident, "name": name, "args": args, "type": "tool_call"})
    return calls
