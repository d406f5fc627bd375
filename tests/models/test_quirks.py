"""Legal requests and storable replies, for every provider and any damage."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_to_dict,
    messages_from_dict,
)
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from deerflow.models.openai import OpenAIChatModel
from deerflow.models.pairs import INTERRUPTED
from deerflow.models.protocol import ModelSpec, delta_sink
from deerflow.models.quirks import absorb, bad_calls, legalise
from deerflow.models.request import encode, wire_messages
from deerflow.models.wire import WireModel
from fakes.openai_endpoint import (
    Call,
    OpenAIEndpoint,
    Turn,
    legal_transcript,
    needs_reasoning,
    needs_signatures,
)

SPEC = ModelSpec("main", "fake", "m", vision=True)
OTHER = ModelSpec("second", "elsewhere", "m", vision=True)


@tool
def look(path: str = ".") -> str:
    """Look at a path."""
    return f"seen {path}"


@tool
def read(path: str = ".") -> str:
    """Read a path."""
    return f"read {path}"


def calling(*ids: str, **keys: Any) -> AIMessage:
    calls = [{"name": "look", "args": {}, "id": i, "type": "tool_call"} for i in ids]
    return AIMessage("", tool_calls=calls, **keys)


def result(call_id: str, text: str = "r") -> ToolMessage:
    return ToolMessage(text, tool_call_id=call_id)


def shape(messages: list[BaseMessage]) -> list[str]:
    """Short words: u, s, a[ids], t<id>=text."""
    words: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            words.append(f"{message.tool_call_id}={message.content}")
        elif isinstance(message, AIMessage) and message.tool_calls:
            words.append("a[" + ",".join(str(call["id"]) for call in message.tool_calls) + "]")
        else:
            words.append(message.type)
    return words


def wire(messages: list[BaseMessage]) -> dict[str, Any]:
    return {"messages": wire_messages(messages)}


def test_p01_users_after_a_result_are_all_kept() -> None:
    history: list[BaseMessage] = [
        HumanMessage("1"),
        calling("a"),
        result("a"),
        HumanMessage("2"),
        HumanMessage("3"),
    ]
    assert legalise(history, SPEC) is history


def test_p01_missing_result_is_filled_in() -> None:
    history = [HumanMessage("1"), calling("a", "b"), result("a"), HumanMessage("2")]
    assert shape(legalise(history, SPEC)) == [
        "human",
        "a[a,b]",
        "a=r",
        f"b={INTERRUPTED}",
        "human",
    ]
    assert len(history) == 4


def test_p01_results_stand_in_call_order() -> None:
    history = [HumanMessage("1"), calling("a", "b"), result("b", "B"), result("a", "A")]
    assert shape(legalise(history, SPEC)) == ["human", "a[a,b]", "a=A", "b=B"]
    assert shape(history) == ["human", "a[a,b]", "b=B", "a=A"]


def test_p01_legal_history_gives_the_same_bytes() -> None:
    history: list[BaseMessage] = [
        SystemMessage("s"),
        HumanMessage("1"),
        calling("a", "b"),
        result("a"),
        result("b"),
        AIMessage("done"),
        HumanMessage("2"),
    ]
    before = encode(wire(history))
    made = legalise(history, SPEC)
    assert made is history
    assert encode(wire(made)) == before


def test_p01_message_between_call_and_result_follows_it() -> None:
    history = [calling("a"), HumanMessage("hey"), result("a")]
    assert shape(legalise(history, SPEC)) == ["a[a]", "a=r", "human"]


def test_p01_orphans_and_second_results_are_dropped() -> None:
    history = [result("x"), HumanMessage("1"), calling("a"), result("a", "1"), result("a", "2")]
    assert shape(legalise(history, SPEC)) == ["human", "a[a]", "a=1"]


def test_p01_ids_repeated_every_turn_keep_their_results() -> None:
    history = [
        HumanMessage("1"),
        calling("call_0"),
        result("call_0", "first"),
        calling("call_0", "call_0"),
        result("call_0", "second"),
        result("call_0", "third"),
        calling("call_0"),
        HumanMessage("2"),
    ]
    made = legalise(history, SPEC)
    assert legal_transcript(wire(made)) is None
    assert [m.content for m in made if isinstance(m, ToolMessage)] == [
        "first",
        "second",
        "third",
        INTERRUPTED,
    ]
    longer = legalise([*history, AIMessage("more"), HumanMessage("3")], SPEC)
    assert encode(wire(longer[: len(made)])) == encode(wire(made)), "the prefix must stay cached"


def test_p01_empty_ids_and_unfinished_calls() -> None:
    invalid = {"name": "look", "args": "{", "id": None, "error": "", "type": "invalid_tool_call"}
    history = [HumanMessage("1"), AIMessage("", invalid_tool_calls=[invalid]), HumanMessage("2")]
    made = legalise(history, SPEC)
    assert legal_transcript(wire(made)) is None
    assert [m.type for m in made] == ["human", "ai", "tool", "human"]


IDS = st.sampled_from(["a", "b", "call_0", "", "ü " * 3, "x" * 90])
ANY_MESSAGE = st.one_of(
    st.just("hello").map(HumanMessage),
    st.text(max_size=2).map(lambda text: AIMessage(text)),
    st.lists(IDS, min_size=1, max_size=3).map(lambda ids: calling(*ids)),
    IDS.map(result),
)


@given(
    st.lists(ANY_MESSAGE, max_size=12),
    st.sampled_from(["openai", "anthropic", "mistral", "deepseek", "host:80"]),
)
def test_p01_anything_becomes_legal_and_stays_so(history: list[Any], provider: str) -> None:
    spec = ModelSpec("m", provider, "m")
    made = legalise(history, spec)
    assert legal_transcript(wire(made)) is None
    assert legalise(made, spec) is made
    kept = [m for m in made if m.type == "human"]
    assert kept == [m for m in history if m.type == "human"]
    limits = {"openai": r".{1,40}", "anthropic": r"[\w-]{1,64}", "mistral": r"[A-Za-z0-9]{9}"}
    for message in made:
        for call in getattr(message, "tool_calls", ()):
            assert re.fullmatch(limits.get(provider, r"\S{1,64}"), call["id"], re.ASCII)


def test_names_that_the_provider_refuses_are_mended() -> None:
    call = {"name": "my tool!", "args": {}, "id": "a", "type": "tool_call"}
    made = legalise([AIMessage("", tool_calls=[call]), result("a")], ModelSpec("m", "openai", "m"))
    assert isinstance(made[0], AIMessage) and made[0].tool_calls[0]["name"] == "my_tool_"


def test_empty_answers_are_left_out() -> None:
    history = [HumanMessage("1"), AIMessage(""), HumanMessage("2")]
    assert shape(legalise(history, SPEC)) == ["human", "human"]


def test_late_system_messages_where_they_are_refused() -> None:
    history = [SystemMessage("s"), HumanMessage("1"), SystemMessage("note")]
    assert legalise(history, SPEC) is history
    made = legalise(history, ModelSpec("c", "anthropic", "claude"))
    assert [m.type for m in made] == ["system", "human", "human"]
    assert "note" in made[2].text


IMAGE = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}


def test_images_only_for_models_that_see() -> None:
    history: list[BaseMessage] = [HumanMessage([{"type": "text", "text": "what?"}, IMAGE])]
    assert legalise(history, SPEC) is history
    blind = legalise(history, ModelSpec("blind", "fake", "m"))
    assert "no images" in blind[0].text and "AAAA" not in str(blind)


def test_images_of_tool_results_move_behind_the_results() -> None:
    history = [
        HumanMessage("1"),
        calling("a", "b"),
        ToolMessage([{"type": "text", "text": "A"}, IMAGE], tool_call_id="a"),
        result("b"),
        AIMessage("seen"),
    ]
    made = legalise(history, SPEC)
    assert [m.type for m in made] == ["human", "ai", "tool", "tool", "human", "ai"]
    assert made[4].content == [IMAGE]
    assert legal_transcript(wire(made)) is None
    claude = ModelSpec("c", "anthropic", "claude", vision=True)
    assert legalise(history, claude) is history


def stored_msgpack(message: BaseMessage) -> BaseMessage:
    serde = JsonPlusSerializer()
    return serde.loads_typed(serde.dumps_typed(message))


def stored_json(message: BaseMessage) -> BaseMessage:
    return type(message).model_validate_json(message.model_dump_json())


def stored_dict(message: BaseMessage) -> BaseMessage:
    return messages_from_dict([message_to_dict(message)])[0]


def copied(message: BaseMessage) -> BaseMessage:
    return message.model_copy(update={"id": "new"}, deep=True)


STORES = pytest.mark.parametrize("store", [stored_msgpack, stored_json, stored_dict, copied])
Store = Callable[[BaseMessage], BaseMessage]


async def converse(model: Any, tools: list[Any], store: Store) -> list[AnyMessage]:
    """Turns until an answer without calls, each message saved and read back before the next."""
    history: list[Any] = [HumanMessage("go")]
    while True:
        reply = store(await model.bind_tools(tools).ainvoke(history))
        assert isinstance(reply, AIMessage)
        history.append(reply)
        if not reply.tool_calls:
            return history
        history += [store(ToolMessage("ok", tool_call_id=c["id"])) for c in reply.tool_calls]


@STORES
@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
async def test_p15_reasoning_of_tool_turns_comes_back(store: Store, key: str) -> None:
    turns = [
        Turn(reasoning="first I look", reasoning_key=key, calls=[Call("look", id="c1")]),
        Turn(reasoning="then I read", reasoning_key=key, calls=[Call("read", id="c2")]),
        Turn(reasoning="so", reasoning_key=key, text="Done."),
    ]
    demand = needs_reasoning if key == "reasoning_content" else None
    async with OpenAIEndpoint(*turns, demand=demand) as endpoint:
        model = WireModel(inner=_lean(endpoint), spec=SPEC)
        history = await converse(model, [look, read], store)
        history.append(HumanMessage("more"))
        await model.bind_tools([look, read]).ainvoke(history)
    assert history[-2].text == "Done."
    sent = [m.get(key) for m in endpoint.requests[-1].messages if m["role"] == "assistant"]
    assert sent == ["first I look", "then I read", "so"]


async def test_p15_reasoning_of_plain_turns_stays_home() -> None:
    turns = [Turn(reasoning="easy", text="Hi."), Turn(text="ok")]
    async with OpenAIEndpoint(*turns) as endpoint:
        model = WireModel(inner=_lean(endpoint), spec=SPEC)
        first = await model.ainvoke("hello")
        assert first.additional_kwargs["reasoning_content"] == "easy"
        await model.ainvoke([HumanMessage("hello"), first, HumanMessage("more")])
    assert endpoint.requests[1].messages[1] == {"role": "assistant", "content": "Hi."}


@STORES
async def test_p15_signatures_of_parallel_calls_come_back(store: Store) -> None:
    turns = [
        Turn(
            calls=[
                Call("look", id="call_0", signature="sig/A+="),
                Call("read", id="call_0", signature="sig/B+="),
            ]
        ),
        Turn(text="Done."),
    ]
    demand = needs_signatures({"look": "sig/A+=", "read": "sig/B+="})
    async with OpenAIEndpoint(*turns, demand=demand) as endpoint:
        model = WireModel(inner=_lean(endpoint), spec=SPEC)
        history = await converse(model, [look, read], store)
    assert history[-1].text == "Done."
    assert legal_transcript(endpoint.requests[1].body) is None


async def test_p15_signatures_in_an_agent_and_without_a_stream() -> None:
    turns = [Turn(calls=[Call("look", id="x", signature="S")]), Turn(text="Done.")]
    demand = needs_signatures({"look": "S"})
    async with OpenAIEndpoint(*turns, demand=demand) as endpoint:
        model = WireModel(inner=_lean(endpoint, streaming=False), spec=SPEC)
        done = await create_agent(model, [look]).ainvoke({"messages": [HumanMessage("go")]})
    assert done["messages"][-1].text == "Done."


THINKING = "<think>\nSecret plan: 2 < 3.\n</think>\n\nThe answer is `x < y`."


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 7, 100])
@pytest.mark.parametrize("kind", ["lean", "sdk"])
async def test_p15_think_tags_split_over_chunks_never_show(piece: int, kind: str) -> None:
    heard: list[tuple[str, str]] = []
    async with OpenAIEndpoint(Turn(text=THINKING, piece=piece)) as endpoint:
        inner = _lean(endpoint) if kind == "lean" else _sdk(endpoint)
        token = delta_sink.set(lambda sort, text: heard.append((sort, text)))
        try:
            reply = await WireModel(inner=inner, spec=SPEC).ainvoke("go")
        finally:
            delta_sink.reset(token)
    assert reply.content == "The answer is `x < y`."
    assert "".join(t for sort, t in heard if sort == "text") == reply.content
    assert reply.additional_kwargs["reasoning_content"] == "Secret plan: 2 < 3."


@pytest.mark.parametrize("kind", ["lean", "sdk"])
async def test_p15_think_tags_never_show_in_a_stream_of_chunks(kind: str) -> None:
    async with OpenAIEndpoint(Turn(text=THINKING, piece=3)) as endpoint:
        inner = _lean(endpoint) if kind == "lean" else _sdk(endpoint)
        chunks = [chunk async for chunk in WireModel(inner=inner, spec=SPEC).astream("go")]
    assert "".join(chunk.text for chunk in chunks) == "The answer is `x < y`."
    thinking = [chunk.additional_kwargs.get("reasoning_content", "") for chunk in chunks]
    assert "".join(thinking).strip() == "Secret plan: 2 < 3."


async def test_p15_think_tags_go_back_to_their_model_in_tool_turns() -> None:
    turns = [Turn(text="<think>plan</think>Looking.", calls=[Call("look", id="c")]), Turn(text="k")]
    async with OpenAIEndpoint(*turns) as endpoint:
        model = WireModel(inner=_lean(endpoint), spec=SPEC)
        history = await converse(model, [look], stored_json)
    assert history[1].content == "Looking."
    assert endpoint.requests[1].messages[1]["content"] == "<think>\nplan\n</think>\n\nLooking."


async def test_p15_private_fields_are_dropped_for_another_model() -> None:
    turns = [
        Turn(reasoning="mine", calls=[Call("look", id="c", signature="S")]),
        Turn(text="<think>x</think>Done."),
    ]
    async with OpenAIEndpoint(*turns) as endpoint:
        model = WireModel(inner=_lean(endpoint), spec=SPEC)
        history = await converse(model, [look], stored_msgpack)
        for spec in (OTHER, ModelSpec("x", "fake", "newer", vision=True)):
            await WireModel(inner=_lean(endpoint), spec=spec).ainvoke([*history, HumanMessage("?")])
            raw = endpoint.requests[-1].raw.decode()
            assert "mine" not in raw and "signature" not in raw and "think" not in raw
        await model.ainvoke([*history, HumanMessage("?")])
    raw = endpoint.requests[-1].raw.decode()
    assert "mine" in raw and "thought_signature" in raw


async def test_p15_stored_messages_are_not_changed_by_sending() -> None:
    first = absorb(calling("c", additional_kwargs={"reasoning_content": "r"}), SPEC)
    before = first.model_dump_json()
    history = [HumanMessage("1"), first, result("c")]
    legalise(history, OTHER)
    legalise(history, SPEC)
    assert first.model_dump_json() == before


def claude_turn() -> AIMessage:
    content = [
        {"type": "thinking", "thinking": "hidden", "signature": "SIG"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
    ]
    calls = [{"name": "look", "args": {}, "id": "toolu_1", "type": "tool_call"}]
    return AIMessage(content, tool_calls=calls)


CLAUDE = ModelSpec("claude", "anthropic", "claude-x")


@STORES
def test_p15_thinking_blocks_go_back_to_anthropic_alone(store: Store) -> None:
    first = absorb(claude_turn(), CLAUDE)
    assert first.text == "I look."
    history = [HumanMessage("go"), store(first), result("toolu_1")]
    model = ChatAnthropic(model="claude-x", api_key="k")
    payload = model._get_request_payload(legalise(history, CLAUDE))
    blocks = payload["messages"][1]["content"]
    assert blocks[0] == {"type": "thinking", "thinking": "hidden", "signature": "SIG"}
    assert [b["type"] for b in blocks] == ["thinking", "text", "tool_use"]
    elsewhere = wire(legalise(history, SPEC))["messages"][1]
    assert elsewhere["content"] == "I look."
    assert "hidden" not in str(elsewhere) and "SIG" not in str(elsewhere)


def test_renamed_calls_keep_anthropic_blocks_in_step() -> None:
    first = absorb(claude_turn(), CLAUDE)
    renamed = first.model_copy(update={"tool_calls": [{**first.tool_calls[0], "id": "bad id"}]})
    made = legalise([HumanMessage("1"), first, result("toolu_1"), first, result("toolu_1")], CLAUDE)
    assert isinstance(made[3], AIMessage)
    assert made[3].content[2]["id"] == made[3].tool_calls[0]["id"] != "toolu_1"
    assert legalise([renamed], CLAUDE)[1].tool_call_id


def test_absorb_settles_foreign_calls() -> None:
    invalid = {
        "name": "look",
        "args": '{"path"',
        "id": "b",
        "error": "x",
        "type": "invalid_tool_call",
    }
    raw = {"tool_calls": [{"id": "a"}], "refusal": None}
    message = calling("a", invalid_tool_calls=[invalid], additional_kwargs=raw)
    made = absorb(message, SPEC)
    assert made.invalid_tool_calls == []
    assert [c["id"] for c in made.tool_calls] == ["a", "b"]
    assert list(bad_calls(made)) == [1]
    assert made.additional_kwargs["deerflow_origin"] == "fake/m"
    assert "tool_calls" not in made.additional_kwargs
    assert list(bad_calls(stored_json(made))) == [1]


def _lean(endpoint: OpenAIEndpoint, **keys: Any) -> OpenAIChatModel:
    return OpenAIChatModel(model="m", base_url=endpoint.base_url, api_key="k", **keys)


def _sdk(endpoint: OpenAIEndpoint) -> ChatOpenAI:
    return ChatOpenAI(model="m", base_url=endpoint.base_url, api_key="k", max_retries=0)
