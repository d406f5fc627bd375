"""Row 4: what a user writes cannot pose as text of the system."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import Middleware, ModelCall, ModelNext, ModelReply
from deerflow.middlewares.delimiters import escape
from deerflow.middlewares.requests import last_request

_UNSENDABLE = re.compile("[\x00\ud800-\udfff]")
"""NUL is refused by JSON columns, a lone surrogate by every UTF-8 encoder."""


class InputSanitizationMiddleware(Middleware):
    """Escapes our own tags inside user text; any other text reaches the model byte for byte.

    What rows further out put around a message is not the user's: it is what the message has more
    than the stored one.
    """

    async def start(self, state: dict[str, Any], run: RunContext) -> dict[str, Any] | None:
        """Replace what cannot be stored or sent (NUL, lone surrogates) in the new request."""
        messages: list[AnyMessage] = state["messages"]
        index = last_request(messages)
        if index < 0 or not messages[index].id:
            return None
        cleaned = _map_text(messages[index], _sendable)
        return None if cleaned is messages[index] else {"messages": [cleaned]}

    async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
        """Hand on the messages with user text made harmless; mostly the same list object."""
        messages: list[AnyMessage] | None = None
        for index, message in enumerate(call.messages):
            if isinstance(message, HumanMessage | SystemMessage):
                safe = _harmless(message, call.state["messages"])
                if safe is not message:
                    messages = messages or list(call.messages)
                    messages[index] = safe
        return await next_(call if messages is None else call.with_(messages=messages))


def _harmless(message: AnyMessage, stored: Sequence[AnyMessage]) -> AnyMessage:
    if isinstance(message, SystemMessage):  # the chain carries ours apart: this came with the input
        content: Any = message.content  # pyright: ignore[reportUnknownMemberType]
        message = HumanMessage(content=content, id=message.id, name=message.name)
    if _map_text(message, escape) is message:
        return message
    origin = next((m for m in stored if m.id == message.id and m.id), None)
    return _map_text(message, escape, _added(message, origin))


def _added(message: AnyMessage, origin: AnyMessage | None) -> int:
    """How much of the front of a message was put there by rows further out: characters or parts."""
    if origin is None:
        return 0
    now: Any = message.content
    then: Any = origin.content
    length = len(now) - len(then)
    return length if type(now) is type(then) and length > 0 and now[length:] == then else 0


def _sendable(text: str) -> str:
    return _UNSENDABLE.sub("\ufffd", text) if _UNSENDABLE.search(text) else text


def _map_text(message: AnyMessage, change: Any, skip: int = 0) -> AnyMessage:
    """A copy with its text changed from `skip` (character or part) on, or the same object."""
    content: Any = message.content
    if isinstance(content, str):
        text = change(content[skip:])
        if text == content[skip:]:
            return message
        return message.model_copy(update={"content": content[:skip] + text})
    parts = [*content[:skip], *(_map_part(part, change) for part in content[skip:])]
    if all(new is old for new, old in zip(parts, content, strict=True)):
        return message
    return message.model_copy(update={"content": parts})


def _map_part(part: Any, change: Any) -> Any:
    if isinstance(part, str):
        text = change(part)
        return part if text == part else text
    if isinstance(part, dict):
        fields = cast("dict[str, Any]", part)
        text = fields.get("text")
        if isinstance(text, str) and change(text) != text:
            return {**fields, "text": change(text)}
    return cast("Any", part)
