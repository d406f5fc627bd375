"""Pairs tool calls with their results: legal ids, one result per call, in order, directly after."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage

INTERRUPTED = "[interrupted] This call has no result; it may or may not have run."
"""Result that stands for a missing one."""


@dataclass(frozen=True, slots=True)
class IdRules:
    """What a provider takes as id of a call.

    Attributes:
        pattern: full match of a legal id.
        longest: in characters.
        exact: length that every id must have (Mistral), or None.
    """

    pattern: re.Pattern[str] = re.compile(r"\S+")
    longest: int = 64
    exact: int | None = None

    def legal(self, call_id: str) -> bool:
        """Whether the provider takes the id."""
        size = len(call_id) == self.exact if self.exact else len(call_id) <= self.longest
        return size and self.pattern.fullmatch(call_id) is not None

    def mend(self, call_id: str, attempt: int) -> str:
        """A legal id made from any text, the same each time; further attempts give others."""
        digest = hashlib.sha256(f"{call_id}\0{attempt}".encode("utf-8", "replace")).hexdigest()
        if self.exact:
            return digest[: self.exact]
        if attempt == 1 and call_id:
            clean = re.sub(r"[^A-Za-z0-9_-]", "_", call_id)
            return clean if len(clean) <= self.longest else f"{clean[:20]}_{digest[:10]}"
        return f"{re.sub(r'[^A-Za-z0-9_-]', '_', call_id)[:20] or 'call'}_{digest[:10]}"


def pair(
    messages: Sequence[BaseMessage], rules: Callable[[AIMessage], IdRules]
) -> list[BaseMessage]:
    """Messages with exact pairs; each message that is legal stays the same object.

    Results are looked for after their call and before the next call of that id, so endpoints that
    repeat `call_0` every turn are told apart. Orphaned and second results are dropped, messages
    between a call and its result follow the results, missing results are filled in.

    Args:
        messages: of one request.
        rules: the id rules for an AI message (its own provider gets its ids back as they were).
    """
    taken: set[int] = set()
    used: set[str] = set()
    paired: list[BaseMessage] = []
    for position, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            continue  # placed behind its call, or an orphan
        if not isinstance(message, AIMessage) or not message.tool_calls:
            paired.append(message)
            continue
        ids = [_new_id(call["id"] or "", used, rules(message)) for call in message.tool_calls]
        paired.append(_with_ids(message, ids))
        for call, call_id in zip(message.tool_calls, ids, strict=True):
            found = _find_result(messages, position, call["id"] or "", taken)
            paired.append(_result(found, call, call_id))
    return paired


def _find_result(
    messages: Sequence[BaseMessage], start: int, call_id: str, taken: set[int]
) -> ToolMessage | None:
    for position in range(start + 1, len(messages)):
        message = messages[position]
        if isinstance(message, ToolMessage):
            if message.tool_call_id == call_id and position not in taken:
                taken.add(position)
                return message
        elif isinstance(message, AIMessage) and any(
            (call["id"] or "") == call_id for call in message.tool_calls
        ):
            return None
    return None


def _result(found: ToolMessage | None, call: ToolCall, call_id: str) -> ToolMessage:
    if found is None:
        return ToolMessage(
            content=INTERRUPTED, tool_call_id=call_id, name=call["name"], status="error"
        )
    if found.tool_call_id == call_id:
        return found
    return found.model_copy(update={"tool_call_id": call_id})


def _new_id(call_id: str, used: set[str], rules: IdRules) -> str:
    new, attempt = call_id, 0
    while not new or new in used or not rules.legal(new):
        attempt += 1
        new = rules.mend(call_id, attempt)
    used.add(new)
    return new


def _with_ids(message: AIMessage, ids: list[str]) -> AIMessage:
    if all(call["id"] == new for call, new in zip(message.tool_calls, ids, strict=True)):
        return message
    calls = [{**call, "id": new} for call, new in zip(message.tool_calls, ids, strict=True)]
    update: dict[str, Any] = {"tool_calls": calls}
    if isinstance(message.content, list):
        update["content"] = _block_ids(message.content, ids)
    return message.model_copy(update=update)


def _block_ids(content: Sequence[Any], ids: list[str]) -> list[Any]:
    """Content in which the `tool_use` blocks (Anthropic's shape) carry the new ids, by position."""
    left = iter(ids)
    blocks: list[Any] = []
    for block in content:
        if isinstance(block, dict) and cast("dict[str, Any]", block).get("type") == "tool_use":
            fields = cast("dict[str, Any]", block)
            blocks.append({**fields, "id": next(left, fields.get("id"))})
        else:
            blocks.append(block)
    return blocks
