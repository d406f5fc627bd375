"""The wrapper around any LangChain chat model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from deerflow.errors import ModelUnavailableError, UsageError
from deerflow.models.openai import OpenAIChatModel
from deerflow.models.protocol import ModelSpec, delta_sink
from deerflow.models.quirks import bad_calls
from deerflow.models.wire import WireModel
from fakes.openai_endpoint import Call, OpenAIEndpoint, Turn

SPEC = ModelSpec("main", "fake", "m")


@tool
def look(path: str = ".") -> str:
    """Look at a path."""
    return f"seen {path}"


class Foreign(BaseChatModel):
    """A chat model as others write them."""

    pieces: list[Any] = []
    whole: AIMessage | None = None

    @property
    def _llm_type(self) -> str:
        return "foreign"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=tools, **kwargs)

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, messages: Any, *args: Any, **kwargs: Any) -> ChatResult:
        assert self.whole is not None
        return ChatResult(generations=[ChatGeneration(message=self.whole)])


class Streaming(Foreign):
    """One that streams."""

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for piece in self.pieces:
            await asyncio.sleep(0)
            yield ChatGenerationChunk(message=piece)


async def heard_from(inner: BaseChatModel) -> tuple[AIMessage, list[tuple[str, str]]]:
    heard: list[tuple[str, str]] = []
    token = delta_sink.set(lambda kind, text: heard.append((kind, text)))
    try:
        return await WireModel(inner=inner, spec=SPEC).ainvoke("go"), heard
    finally:
        delta_sink.reset(token)


async def test_foreign_blocks_are_told_apart() -> None:
    pieces = [
        AIMessageChunk(content=[{"type": "thinking", "thinking": "hm", "index": 0}]),
        AIMessageChunk(content=[{"type": "text", "text": "Yes", "index": 1}]),
        AIMessageChunk(content=[{"type": "text", "text": ".", "index": 1}]),
    ]
    reply, heard = await heard_from(Streaming(pieces=pieces))
    assert heard == [("reasoning", "hm"), ("text", "Yes"), ("text", ".")]
    assert reply.text == "Yes."
    assert type(reply) is AIMessage


async def test_half_written_arguments_are_not_mended() -> None:
    part = {"name": "look", "args": '{"path": "/etc', "id": "c", "index": 0}
    chunk = AIMessageChunk(content="", tool_call_chunks=[{**part, "type": "tool_call_chunk"}])
    assert chunk.tool_calls[0]["args"] == {"path": "/etc"}, "LangChain mends it"
    reply, heard = await heard_from(Streaming(pieces=[chunk]))
    assert reply.tool_calls[0]["args"] == {} and list(bad_calls(reply)) == [0]
    assert heard == [("call", '{"path": "/etc')]


async def test_model_without_a_stream() -> None:
    whole = AIMessage("<think>a</think>b")
    reply, heard = await heard_from(Foreign(whole=whole))
    assert reply.content == "b"
    assert heard == [("reasoning", "a"), ("text", "b")]


async def test_stream_of_nothing_is_an_error() -> None:
    with pytest.raises(ModelUnavailableError, match="sent nothing"):
        await heard_from(Streaming(pieces=[]))


async def test_model_that_cannot_call_tools_gets_none() -> None:
    async with OpenAIEndpoint() as endpoint:
        inner = OpenAIChatModel(model="m", base_url=endpoint.base_url)
        spec = ModelSpec("main", "fake", "m", tools=False)
        await WireModel(inner=inner, spec=spec).bind_tools([look], tool_choice="any").ainvoke("go")
    assert "tools" not in endpoint.requests[0].body
    assert "tool_choice" not in endpoint.requests[0].body


async def test_same_tools_give_the_same_exchange() -> None:
    model = WireModel(inner=OpenAIChatModel(model="m"), spec=SPEC)
    assert model.bind_tools([look]) is model.bind_tools([look])
    assert model.bind_tools([look]) is not model.bind_tools([look], tool_choice="any")
    assert model.bind_tools([look]) is not model.bind_tools([])


async def test_inputs_of_every_kind() -> None:
    async with OpenAIEndpoint() as endpoint:
        model = WireModel(inner=OpenAIChatModel(model="m", base_url=endpoint.base_url), spec=SPEC)
        prompt = ChatPromptTemplate.from_messages([("human", "{x}")])
        assert (await (prompt | model).ainvoke({"x": "hi"})).text == "ok"
        await model.ainvoke("hi")
        await model.ainvoke([("human", "hi")])
        await model.ainvoke([{"role": "user", "content": "hi"}])
        await model.ainvoke([HumanMessage("hi")])
    assert {request.raw for request in endpoint.requests} == {endpoint.requests[0].raw}


@pytest.mark.parametrize("kind", ["lean", "sdk"])
async def test_p01_agent_goes_on_after_damage(kind: str) -> None:
    """A thread whose history is broken answers again, and its history stays as it was."""
    async with OpenAIEndpoint(Turn(calls=[Call("look", id="a")]), Turn(text="Done.")) as endpoint:
        inner: BaseChatModel = (
            OpenAIChatModel(model="m", base_url=endpoint.base_url)
            if kind == "lean"
            else ChatOpenAI(model="m", base_url=endpoint.base_url, api_key="k")
        )
        call = {"name": "look", "args": {}, "id": "a", "type": "tool_call"}
        broken = [HumanMessage("1"), AIMessage("", tool_calls=[call]), HumanMessage("2")]
        agent = create_agent(WireModel(inner=inner, spec=SPEC), [look])
        done = await agent.ainvoke({"messages": broken})
    roles = [message["role"] for message in endpoint.requests[0].messages]
    assert roles == ["user", "assistant", "tool", "user"]
    assert [m.type for m in done["messages"]] == ["human", "ai", "human", "ai", "tool", "ai"]


async def test_sync_door_is_closed() -> None:
    model = WireModel(inner=OpenAIChatModel(model="m"), spec=SPEC)
    for asked in (model, model.bind_tools([look])):
        with pytest.raises(UsageError, match="async"):
            asked.invoke("go")
