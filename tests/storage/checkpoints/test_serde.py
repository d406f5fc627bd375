"""CompactSerde: every message comes back as it was, compactly, and nothing foreign is built."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Interrupt, Overwrite, Send

from deerflow.storage.checkpoints.serde import CompactSerde, DeltaSnapshot

CALL = {"name": "ls", "args": {"path": "/mnt", "n": 1}, "id": "c1", "type": "tool_call"}
USAGE = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
MESSAGES: list[AnyMessage] = [
    HumanMessage("hi", id="1", name="ann"),
    HumanMessage([{"type": "text", "text": "see"}, {"type": "image", "sha256": "ab"}]),
    HumanMessage("with extra", hidden={"from": "row 10"}),
    SystemMessage("be kind"),
    AIMessage("", id="2", tool_calls=[CALL], usage_metadata=USAGE),
    AIMessage(
        "x",
        additional_kwargs={"reasoning_content": "because", "sig": b"\x00\xff"},
        response_metadata={"finish_reason": "stop"},
    ),
    AIMessage(
        "broken",
        invalid_tool_calls=[
            {"name": "f", "args": "{", "id": "i", "error": "e", "type": "invalid_tool_call"}
        ],
    ),
    AIMessageChunk("part", id="3", tool_call_chunks=[]),
    ToolMessage("out", tool_call_id="c1", artifact={"rows": [1, 2]}, status="error", id="4"),
    ToolMessage(["a", {"type": "text", "text": "b"}], tool_call_id="c1"),
    RemoveMessage(id="1"),
    ChatMessage("other class", role="critic"),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: f"{m.type}-{str(m.content)[:10]}")
def test_messages_come_back_equal(message: AnyMessage) -> None:
    serde = CompactSerde()
    back = serde.loads_typed(serde.dumps_typed([message]))[0]

    assert type(back) is type(message)
    assert back == message
    assert back.__dict__ == message.__dict__


def test_messages_are_a_third_of_the_stock_form() -> None:
    message = AIMessage("", id="msg_0123456789abcdef", tool_calls=[CALL])

    assert len(CompactSerde().pack(message)) * 2 < len(JsonPlusSerializer().dumps_typed(message)[1])


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"bytes",
        {"a": [1, 2.5, "x", None], 3: True},
        datetime(2026, 1, 2, tzinfo=UTC),
        {1, 2},
        Send("tools", {"message": HumanMessage("x", id="1")}),
        Interrupt(value={"q": 1}, id="i"),
        Overwrite([HumanMessage("x", id="1")]),
    ],
    ids=repr,
)
def test_what_langgraph_stores_comes_back(value: Any) -> None:
    serde = CompactSerde()

    assert serde.unpack(serde.pack(value)) == value


def test_snapshots_keep_their_mark() -> None:
    serde = CompactSerde()
    back = serde.unpack(serde.pack(DeltaSnapshot([HumanMessage("x", id="1")])))

    assert isinstance(back, DeltaSnapshot)
    assert back.value == [HumanMessage("x", id="1")]


def test_a_lone_surrogate_stops_nothing() -> None:
    serde = CompactSerde()

    assert serde.unpack(serde.pack(HumanMessage("a\udc80b"))).content == "a?b"


@dataclass
class Foreign:
    """A type that is on no list."""

    x: int


def test_a_type_off_the_list_comes_back_as_plain_data() -> None:
    serde = CompactSerde()
    data = serde.pack(Foreign(3))

    assert serde.unpack(data) == {"x": 3}
    allowed = serde.with_msgpack_allowlist([(Foreign.__module__, "Foreign")])
    assert isinstance(allowed, CompactSerde)
    assert allowed.unpack(data) == Foreign(3)


def test_pickle_is_never_used() -> None:
    with pytest.raises(TypeError):
        CompactSerde().pack(lambda: None)


def test_values_of_the_stock_serializer_are_read() -> None:
    stock = JsonPlusSerializer()

    assert CompactSerde().loads_typed(stock.dumps_typed(HumanMessage("x", id="1"))) == HumanMessage(
        "x", id="1"
    )
