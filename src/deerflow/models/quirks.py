"""The one place that knows providers: makes a request legal and a reply storable.

`legalise` is the last step before the wire, `absorb` the first after it. Fields that only one
provider understands travel in the message (see `models/private.py`) and go back only to the
provider and model that wrote them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from deerflow.models.pairs import IdRules, pair
from deerflow.models.private import BAD_CALLS, MESSAGE_FIELDS, ORIGIN, REASONING, REASONING_KEY
from deerflow.models.protocol import ModelSpec
from deerflow.models.settle import settle
from deerflow.models.thinktags import split_think
from deerflow.models.toolcalls import UNNAMED

_STRICT = re.compile(r"[A-Za-z0-9_-]+")
_LENIENT_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")
_STRICT_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PRIVATE_KEY = re.compile(r"signature|thought|thinking|reasoning|^deerflow_calls$")
_PRIVATE_BLOCKS = frozenset(
    {"thinking", "redacted_thinking", "reasoning", "reasoning_content", "tool_use", "function_call"}
)
_IMAGES = frozenset({"image", "image_url", "input_image"})
SYSTEM_NOTE = "[system note] "


@dataclass(frozen=True, slots=True)
class _Rules:
    """What a provider refuses that others take."""

    ids: IdRules = IdRules()
    own_ids: IdRules = IdRules(longest=100_000)
    """For messages that the provider wrote itself (its ids may be long and odd)."""
    names: re.Pattern[str] = _LENIENT_NAME
    late_system: bool = True
    tool_images: bool = False


_OPENAI_IDS = IdRules(longest=40)
_OPENAI = _Rules(ids=_OPENAI_IDS, own_ids=_OPENAI_IDS, names=_STRICT_NAME)
_ANTHROPIC = _Rules(
    ids=IdRules(_STRICT, 64), names=_STRICT_NAME, late_system=False, tool_images=True
)
_GOOGLE = _Rules(late_system=False)
_RULES = {
    "openai": _OPENAI,
    "azure": _OPENAI,
    "azure_openai": _OPENAI,
    "anthropic": _ANTHROPIC,
    "bedrock": _ANTHROPIC,
    "anthropic_bedrock": _ANTHROPIC,
    "bedrock_converse": _ANTHROPIC,
    "google_genai": _GOOGLE,
    "google_vertexai": _GOOGLE,
    "mistral": _Rules(ids=IdRules(re.compile(r"[A-Za-z0-9]+"), 9, exact=9), names=_STRICT_NAME),
    "mistralai": _Rules(ids=IdRules(re.compile(r"[A-Za-z0-9]+"), 9, exact=9), names=_STRICT_NAME),
}
_DEFAULT = _Rules()


def origin_of(spec: ModelSpec) -> str:
    """Tag of a model whose private fields belong together: `provider/model`."""
    return f"{spec.provider}/{spec.model}"


def legalise(messages: Sequence[BaseMessage], spec: ModelSpec) -> list[BaseMessage]:
    """The messages as this model takes them.

    Args:
        messages: of one request, system message included or not.
        spec: the model that gets them.

    Returns:
        `messages` itself when nothing had to change. Otherwise a list in which ids are unique and
        legal, each call has exactly one result directly after it and in order, private fields of
        other models are gone, images stand only where the model takes them. No message is changed
        in place.
    """
    rules = _RULES.get(spec.provider, _DEFAULT)
    here = origin_of(spec)
    fitted: list[BaseMessage] = []
    tool_turns = _tool_turns(messages)
    for position, message in enumerate(messages):
        if isinstance(message, AIMessage):
            whole = _fit_reply(message, here, rules, in_tool_turn=position in tool_turns)
            if whole is not None:
                fitted.append(whole)
        else:
            fitted.append(_fit_other(message, spec, rules, first=not fitted))
    paired = pair(
        fitted, lambda m: rules.own_ids if m.additional_kwargs.get(ORIGIN) == here else rules.ids
    )
    shown = paired if rules.tool_images or not spec.vision else _hoist_images(paired)
    same = len(shown) == len(messages) and all(a is b for a, b in zip(shown, messages, strict=True))
    return messages if same and isinstance(messages, list) else shown


def absorb(message: AIMessage, spec: ModelSpec) -> AIMessage:
    """A reply as it is stored: legal calls, no think tags in the answer, tagged with its origin.

    `response_metadata` and usage stay; thinking taken out of the content stands in
    `additional_kwargs["reasoning_content"]`.
    """
    message = settle(message)
    extra = dict(message.additional_kwargs)
    extra.pop("tool_calls", None)  # ChatOpenAI's raw copy of the calls
    update: dict[str, Any] = {"additional_kwargs": extra}
    if spec.settings.get("think_tags", True):
        truncated = message.response_metadata.get("finish_reason") in ("length", "max_tokens")
        content, thinking = _untagged(message.content, truncated=truncated)
        if thinking:
            update["content"] = content
            extra[REASONING] = "\n\n".join(filter(None, [extra.get(REASONING), thinking]))
            extra.setdefault(REASONING_KEY, "tags")
    extra[ORIGIN] = origin_of(spec)
    return message.model_copy(update=update)


def bad_calls(message: AIMessage) -> dict[int, str]:
    """Positions of malformed calls in the message → what is wrong with them."""
    marked: dict[Any, str] = message.additional_kwargs.get(BAD_CALLS) or {}
    return {int(position): text for position, text in marked.items()}


def _tool_turns(messages: Sequence[BaseMessage]) -> set[int]:
    """Positions of AI messages between two human messages of which at least one calls a tool.

    DeepSeek and Moonshot want the thinking of all of these back, and ignore or refuse others.
    """
    found: set[int] = set()
    turn: list[int] = []
    calls = False
    for position, message in enumerate(messages):
        if isinstance(message, AIMessage):
            turn.append(position)
            calls = calls or bool(message.tool_calls)
        elif isinstance(message, HumanMessage):
            found.update(turn if calls else ())
            turn, calls = [], False
    found.update(turn if calls else ())
    return found


def _fit_reply(
    message: AIMessage, here: str, rules: _Rules, *, in_tool_turn: bool
) -> AIMessage | None:
    """An AI message for this model; None when nothing of it is left to send."""
    if message.invalid_tool_calls:
        message = settle(message)
    extra = message.additional_kwargs
    if extra.get(ORIGIN) == here:
        message = _own(message, in_tool_turn=in_tool_turn)
    else:
        if any(_PRIVATE_KEY.search(key) or key in MESSAGE_FIELDS for key in extra):
            kept = {
                key: value
                for key, value in extra.items()
                if not _PRIVATE_KEY.search(key) and key not in MESSAGE_FIELDS
            }
            message = message.model_copy(update={"additional_kwargs": kept})
        message = _without_private_blocks(message)
    for call in message.tool_calls:
        if not rules.names.fullmatch(call["name"]):
            message = _legal_names(message, rules)
            break
    if not message.tool_calls and not message.content:
        return None
    return message


def _own(message: AIMessage, *, in_tool_turn: bool) -> AIMessage:
    """A message that goes back to the model that wrote it."""
    extra = message.additional_kwargs
    thinking = extra.get(REASONING)
    if not thinking or (in_tool_turn and extra.get(REASONING_KEY) != "tags"):
        return message
    kept = {k: v for k, v in extra.items() if k not in (REASONING, REASONING_KEY)}
    update: dict[str, Any] = {"additional_kwargs": kept}
    if in_tool_turn and isinstance(message.content, str):
        update["content"] = f"<think>\n{thinking}\n</think>\n\n{message.content}"
    return message.model_copy(update=update)


def _without_private_blocks(message: AIMessage) -> AIMessage:
    if isinstance(message.content, str):
        return message
    if not any(_type(block) in _PRIVATE_BLOCKS for block in message.content):
        return message
    kept = [block for block in message.content if _type(block) not in _PRIVATE_BLOCKS]
    if all(_type(block) == "text" for block in kept):
        content: Any = "".join(
            block if isinstance(block, str) else str(block.get("text", "")) for block in kept
        )
    else:
        content = kept
    return message.model_copy(update={"content": content})


def _legal_names(message: AIMessage, rules: _Rules) -> AIMessage:
    calls = [
        call
        if rules.names.fullmatch(call["name"])
        else {**call, "name": re.sub(r"[^A-Za-z0-9_-]", "_", call["name"])[:64] or UNNAMED}
        for call in message.tool_calls
    ]
    return message.model_copy(update={"tool_calls": calls})


def _fit_other(message: BaseMessage, spec: ModelSpec, rules: _Rules, *, first: bool) -> BaseMessage:
    if isinstance(message, SystemMessage):
        if first or rules.late_system:
            return message
        return HumanMessage(content=SYSTEM_NOTE + message.text, id=message.id)
    if spec.vision or isinstance(message.content, str):
        return message
    if not any(_type(block) in _IMAGES for block in message.content):
        return message
    note = {"type": "text", "text": f"[image omitted: model {spec.name} takes no images]"}
    blocks = [note if _type(block) in _IMAGES else block for block in message.content]
    return message.model_copy(update={"content": blocks})


def _hoist_images(messages: list[BaseMessage]) -> list[BaseMessage]:
    """Images of tool results moved into a user message behind the results of their turn.

    Chat completions take text alone in tool messages.
    """
    if not any(_has_image(message) for message in messages):
        return messages
    moved: list[BaseMessage] = []
    waiting: list[Any] = []
    for message in messages:
        if waiting and not isinstance(message, ToolMessage):
            moved.append(HumanMessage(content=waiting))
            waiting = []
        if _has_image(message):
            note = {"type": "text", "text": "[image: see the next user message]"}
            content = cast("list[Any]", message.content)
            waiting += [block for block in content if _type(block) in _IMAGES]
            blocks = [note if _type(block) in _IMAGES else block for block in content]
            message = message.model_copy(update={"content": blocks})
        moved.append(message)
    return [*moved, HumanMessage(content=waiting)] if waiting else moved


def _has_image(message: BaseMessage) -> bool:
    return (
        isinstance(message, ToolMessage)
        and isinstance(message.content, list)
        and any(_type(block) in _IMAGES for block in message.content)
    )


def _untagged(content: Any, *, truncated: bool) -> tuple[Any, str]:
    """(content without think blocks, the thinking)."""
    if isinstance(content, str):
        return split_think(content, truncated=truncated)
    blocks: list[Any] = []
    thoughts: list[str] = []
    for block in cast("list[Any]", content):
        fields = cast("dict[str, Any]", block) if isinstance(block, dict) else {}
        text = fields.get("text")
        visible, thinking = ("", "")
        if fields.get("type") == "text" and isinstance(text, str):
            visible, thinking = split_think(text, truncated=truncated)
        thoughts += [thinking] if thinking else []
        blocks.append({**fields, "text": visible} if thinking else block)
    return blocks, "\n\n".join(thoughts)


def _type(block: Any) -> str:
    return "text" if isinstance(block, str) else str(block.get("type", ""))
