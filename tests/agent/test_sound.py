"""Replies that no store or provider takes become ones that both take; others stay the same."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from langchain_core.messages import AIMessage, ToolCall

from deerflow.agent.calls import BAD_CALLS
from deerflow.agent.journal import Codec
from deerflow.agent.sound import DEPTH, sound
from deerflow.storage.checkpoints.serde import CompactSerde
from fakes.rows import tool

TOOLS = [tool("bash"), tool("files.read")]


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": [value]}
    return value


def asking(name: str = "bash", id: str = "c1", **args: Any) -> AIMessage:
    return AIMessage("text", tool_calls=[ToolCall(name=name, args=args, id=id)])


@pytest.mark.parametrize(
    "message",
    [
        AIMessage("plain 界🦌"),
        asking(command="ls", deep=nested(20), big=2**64 - 1, small=-(2**63)),
        asking("files.read"),
        asking(id=""),
        AIMessage([{"type": "text", "text": "a"}], additional_kwargs={"x": [1, None, 1.5]}),
    ],
)
def test_a_sound_reply_is_the_same_object(message: AIMessage) -> None:
    assert sound(message, TOOLS) is message


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ({"a": nested(DEPTH)}, "nested deeper than 100 levels"),
        ({"a": nested(2000)}, "nested deeper than 100 levels"),
        ({"a": [10**30]}, "beyond 64 bits"),
        ({"a": -(2**63) - 1}, "beyond 64 bits"),
        ({"a": {"\ud800": 1}}, "half a character"),
    ],
)
def test_arguments_that_cannot_be_kept_are_answered(args: dict[str, Any], reason: str) -> None:
    message = asking(**args)
    message.tool_calls.append(ToolCall(name="bash", args={"command": "ls"}, id="c2"))
    mended = sound(message, TOOLS)
    assert [call["args"] for call in mended.tool_calls] == [{}, {"command": "ls"}]
    assert list(mended.additional_kwargs[BAD_CALLS]) == ["0"]
    assert reason in mended.additional_kwargs[BAD_CALLS]["0"]


def test_half_characters_in_a_value_are_left_to_the_tool() -> None:
    mended = sound(asking(content="a\ud800"), TOOLS)
    assert mended.tool_calls[0]["args"] == {"content": "a\ud800"}
    assert BAD_CALLS not in mended.additional_kwargs


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        ("functions.bash", "functions_bash"),
        ("bash\n", "bash"),
        ("a" * 100, "a" * 64),
        ("🦌", "unknown_tool"),
        ("b\ud800sh", "b_sh"),
    ],
)
def test_names_of_unknown_tools_are_legal_in_a_history(name: str, legal: str) -> None:
    assert sound(asking(name), TOOLS).tool_calls[0]["name"] == legal


@pytest.mark.parametrize("id_", ["c\0", "a b", "c\ud800", "x" * 300, "é"])
def test_unusable_ids_are_replaced(id_: str) -> None:
    new = sound(asking(id=id_), TOOLS).tool_calls[0]["id"]
    assert new and new.isascii() and new.isprintable() and len(new) <= 40


@pytest.mark.parametrize(
    "message",
    [
        AIMessage("a\ud800", additional_kwargs={"reasoning_content": "\udfff", "\ud800": 10**40}),
        AIMessage([{"type": "text", "text": "\ud800"}], response_metadata={"n": nested(400)}),
        asking(a=nested(500)),
        asking("\ud800", "\ud800", **{"\ud800": -(10**30)}),
    ],
)
def test_every_mended_reply_can_be_stored_and_sent(message: AIMessage) -> None:
    mended = sound(message, TOOLS)
    CompactSerde().pack(mended)
    Codec().dump(mended)
    orjson.dumps(mended.model_dump())
