"""Messages of clients: every shape is taken, and made one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from deerflow.errors import UsageError
from deerflow.runtime.wire_messages import CLIENT_ID, MOST, messages_of, said, text_of

PARTS = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:,"}}]
HUMAN = {"type": "human", "content": "hi", "additional_kwargs": {}}

SHAPES: list[Any] = [
    "hi",
    ["hi"],
    ["user", "hi"],
    [["human", "hi"]],
    {"role": "user", "content": "hi"},
    {"type": "human", "content": "hi"},
    {"type": "HumanMessage", "content": "hi"} | {"type": "HumanMessageChunk"},
    {"type": "human", "data": {"content": "hi"}},
    [{"content": "hi"}],
    [{"role": "User", "content": "hi", "response_metadata": {}, "example": False}],
]


@pytest.mark.parametrize("given", SHAPES, ids=str)
def test_every_shape_is_the_same_message(given: Any) -> None:
    assert messages_of(given) == [HUMAN]


def test_what_a_client_sends_along_is_kept() -> None:
    extra = {"files": [{"filename": "a"}], "hide_from_ui": True, "human_input_response": {"v": 1}}
    sent = {"type": "human", "id": "m1", "content": PARTS, "additional_kwargs": extra}
    (found,) = messages_of([{**sent, "additional_kwargs": {**extra, "deerflow_goal": 3}}])
    assert found == sent
    message = said(found, "in-1")
    assert isinstance(message, HumanMessage)
    assert (message.id, message.content) == ("in-1", PARTS)
    assert message.additional_kwargs == {**extra, CLIENT_ID: "m1"}
    assert said(found).id == "m1"
    assert text_of(message.content) == "look"  # pyright: ignore[reportUnknownMemberType]


def test_other_kinds_of_messages() -> None:
    calls = [{"id": "c", "name": "ls", "args": {}}]
    given: list[Any] = [
        {"role": "system", "content": "be kind"},
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "content": "a.md", "tool_call_id": "c", "name": "ls", "status": "error"},
    ]
    system, ai, tool = (said(message) for message in messages_of(given))
    assert isinstance(system, SystemMessage)
    assert isinstance(ai, AIMessage)
    assert ai.tool_calls[0]["name"] == "ls"
    assert isinstance(tool, ToolMessage)
    assert (tool.tool_call_id, tool.status) == ("c", "error")


BAD: list[Any] = [
    5,
    [5],
    [["a", "b", "c"]],
    {"role": "nobody", "content": "x"},
    {"role": 5, "content": "x"},
    {"content": 5},
    {"content": {"text": "x"}},
    {"content": [5]},
    {"content": [{"text": "x"}]},
    {"content": [{"type": "text"}]},
    {"content": "x", "id": 5},
    {"content": "x", "id": "i" * 300},
    {"content": "x", "additional_kwargs": []},
    {"role": "tool", "content": "x"},
    {"role": "ai", "content": "x", "tool_calls": [{"name": "x"}]},
    {"content": "\ud800"},
    ["x"] * (MOST + 1),
]


@pytest.mark.parametrize("given", BAD, ids=lambda given: repr(given)[:40])
def test_what_is_no_message_is_refused_with_its_place(given: Any) -> None:
    with pytest.raises(UsageError) as caught:
        messages_of(given)
    assert "messages[0]" in caught.value.message or str(MOST) in caught.value.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
KEYS = st.sampled_from(["type", "role", "content", "id", "additional_kwargs", "tool_calls", "data"])


@given(st.dictionaries(KEYS, JSON) | JSON)
def test_whatever_comes_is_taken_or_refused(given: Any) -> None:
    try:
        found = messages_of(given)
    except UsageError:
        return
    for message in found:
        if message["type"] != "tool":
            said(message)
