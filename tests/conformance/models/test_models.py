"""One suite for every way to talk to a model: each adapter answers the same turns the same way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from deerflow.errors import (
    ContextOverflowError,
    ModelAuthError,
    ModelError,
    ModelPaymentError,
    ModelRequestError,
    ModelUnavailableError,
    RateLimitError,
    UsageError,
)
from deerflow.models.openai import OpenAIChatModel
from deerflow.models.protocol import ModelSpec, delta_sink
from deerflow.models.quirks import bad_calls
from deerflow.models.scripted import ScriptedChatModel
from deerflow.models.wire import WireModel
from fakes.openai_endpoint import Call, OpenAIEndpoint, Turn

SPEC = ModelSpec(name="main", provider="fake", model="m", vision=True)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def look(path: str = ".") -> str:
    """Look at a path."""
    return path


@dataclass
class Adapter:
    """A kind of model: `model(*turns)` answers with them, `sent()` gives the bodies of the wire."""

    kind: str
    stack: AsyncExitStack
    endpoint: OpenAIEndpoint | None = None
    wrap: Callable[[BaseChatModel], BaseChatModel] = field(
        default=lambda inner: WireModel(inner=inner, spec=SPEC)
    )

    async def model(self, *turns: Turn) -> BaseChatModel:
        if self.kind == "scripted":
            return self.wrap(ScriptedChatModel(script=[_written(turn) for turn in turns]))
        self.endpoint = await self.stack.enter_async_context(OpenAIEndpoint(*turns))
        url = self.endpoint.base_url
        if self.kind == "lean":
            return self.wrap(
                OpenAIChatModel(model="m", base_url=url, api_key="k-secret", label="main")
            )
        sdk = ChatOpenAI(
            model="m", base_url=url, api_key="k-secret", max_retries=0, stream_usage=True
        )
        return self.wrap(sdk)

    def sent(self) -> list[dict[str, Any]]:
        assert self.endpoint is not None
        return [request.body for request in self.endpoint.requests]


def _written(turn: Turn) -> dict[str, Any]:
    usage = turn.usage or {}
    written: dict[str, Any] = {
        "text": "".join(turn.pieces),
        "reasoning": turn.reasoning,
        "calls": [
            {"name": call.name, "args": call.args, **({"id": call.id} if call.id else {})}
            for call in turn.calls
        ],
        "usage": {"input": usage.get("prompt_tokens", 0), "output": usage["completion_tokens"]},
    }
    codes = {401: "auth", 402: "payment", 400: "request", 429: "rate_limit", 500: "server"}
    if turn.status != 200:
        written["error"] = "context" if "context" in str(turn.error) else codes[turn.status]
    return {key: value for key, value in written.items() if value}


@pytest.fixture(params=["lean", "sdk", "scripted"])
async def adapter(request: pytest.FixtureRequest) -> AsyncIterator[Adapter]:
    async with AsyncExitStack() as stack:
        yield Adapter(request.param, stack)


@pytest.fixture(params=["lean", "sdk"])
async def on_wire(request: pytest.FixtureRequest) -> AsyncIterator[Adapter]:
    async with AsyncExitStack() as stack:
        yield Adapter(request.param, stack)


class Heard:
    """A delta sink that keeps what it was told."""

    def __init__(self) -> None:
        self.pieces: list[tuple[str, str]] = []

    def __call__(self, kind: str, text: str) -> None:
        self.pieces.append((kind, text))

    def all(self, kind: str) -> str:
        return "".join(text for found, text in self.pieces if found == kind)


@pytest.fixture
def heard() -> Heard:
    return Heard()


async def ask(model: Any, messages: Any, heard: Heard | None = None) -> AIMessage:
    token = delta_sink.set(heard)
    try:
        return await model.ainvoke(messages)
    finally:
        delta_sink.reset(token)


async def test_text_and_deltas(adapter: Adapter, heard: Heard) -> None:
    model = await adapter.model(Turn(text="Hello, 世界 — naïve 🦌!"))
    reply = await ask(model, [SystemMessage("Be short."), HumanMessage("hi")], heard)
    assert type(reply) is AIMessage
    assert reply.content == "Hello, 世界 — naïve 🦌!"
    assert heard.all("text") == reply.content
    assert reply.tool_calls == [] and reply.invalid_tool_calls == []
    assert reply.response_metadata["finish_reason"] == "stop"


async def test_stream_gives_chunks(adapter: Adapter) -> None:
    model = await adapter.model(Turn(text="one two three four"))
    chunks = [chunk async for chunk in model.astream("go")]
    assert len(chunks) > 1
    assert all(isinstance(chunk, AIMessageChunk) for chunk in chunks)
    whole = add_ai_message_chunks(chunks[0], *chunks[1:])
    assert whole.text == "one two three four"
    assert whole.usage_metadata is not None and whole.usage_metadata["output_tokens"] == 7


async def test_one_call(adapter: Adapter) -> None:
    model = await adapter.model(Turn(calls=[Call("add", {"a": 1, "b": 2}, id="c1")]))
    reply = await ask(model.bind_tools([add, look]), "add 1 and 2")
    assert [(c["name"], c["args"], c["id"]) for c in reply.tool_calls] == [
        ("add", {"a": 1, "b": 2}, "c1")
    ]
    assert reply.content == ""
    assert reply.response_metadata["finish_reason"] == "tool_calls"


async def test_parallel_calls_keep_their_order(adapter: Adapter) -> None:
    calls = [Call("look", {"path": f"/{n}"}, id=f"c{n}") for n in range(5)]
    model = await adapter.model(Turn(text="I look.", calls=calls))
    reply = await ask(model.bind_tools([add, look]), "look")
    assert [c["id"] for c in reply.tool_calls] == [f"c{n}" for n in range(5)]
    assert [c["args"]["path"] for c in reply.tool_calls] == [f"/{n}" for n in range(5)]
    assert reply.content == "I look."


async def test_malformed_call_becomes_legal_and_marked(adapter: Adapter) -> None:
    bad = Call("add", '{"a": 1, "b"', id="c1")
    model = await adapter.model(Turn(calls=[Call("look", id="c0"), bad, Call("look", id="c2")]))
    reply = await ask(model.bind_tools([add, look]), "go")
    assert reply.invalid_tool_calls == []
    calls = [(call["name"], call["args"], call["id"]) for call in reply.tool_calls]
    assert sorted(calls, key=lambda call: call[2]) == [
        ("look", {}, "c0"),
        ("add", {}, "c1"),
        ("look", {}, "c2"),
    ]
    ((position, problem),) = bad_calls(reply).items()
    assert calls[position][0] == "add"
    assert "JSON" in problem
    if adapter.kind != "scripted":  # it hands out LangChain's invalid calls, which have no position
        assert position == 1


async def test_usage(adapter: Adapter) -> None:
    model = await adapter.model(Turn(text="x"))
    reply = await ask(model, "go")
    assert reply.usage_metadata is not None
    assert reply.usage_metadata["input_tokens"] == 11
    assert reply.usage_metadata["output_tokens"] == 7


async def test_several_turns(adapter: Adapter) -> None:
    model = (
        await adapter.model(
            Turn(calls=[Call("add", {"a": 1, "b": 2}, id="c1")]), Turn(text="It is 3.")
        )
    ).bind_tools([add])
    history: list[AnyMessage] = [HumanMessage("add")]
    first = await ask(model, history)
    history += [first, ToolMessage("3", tool_call_id=first.tool_calls[0]["id"])]
    second = await ask(model, history)
    assert second.content == "It is 3."


async def test_tool_traffic_on_the_wire(on_wire: Adapter) -> None:
    model = (await on_wire.model(Turn(text="ok"))).bind_tools([add])
    call = {"name": "add", "args": {"a": 1, "b": 2}, "id": "c1", "type": "tool_call"}
    await ask(
        model,
        [
            SystemMessage("S"),
            HumanMessage("add"),
            AIMessage("", tool_calls=[call]),
            ToolMessage("3", tool_call_id="c1"),
        ],
    )
    body = on_wire.sent()[0]
    assert [m["role"] for m in body["messages"]] == ["system", "user", "assistant", "tool"]
    wired = body["messages"][2]["tool_calls"][0]
    assert wired["id"] == "c1" and wired["function"]["name"] == "add"
    assert body["messages"][3] == {"role": "tool", "tool_call_id": "c1", "content": "3"}
    assert body["tools"][0]["function"]["name"] == "add"
    assert body["stream"] is True and body["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "base64": "AAAA", "mime_type": "image/png"},
        {"type": "image", "source_type": "base64", "data": "AAAA", "mime_type": "image/png"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ],
)
async def test_images_on_the_wire(on_wire: Adapter, block: dict[str, Any]) -> None:
    model = await on_wire.model(Turn(text="a deer"))
    await ask(model, [HumanMessage([{"type": "text", "text": "what?"}, block])])
    parts = on_wire.sent()[0]["messages"][0]["content"]
    assert parts[0] == {"type": "text", "text": "what?"}
    assert parts[1]["image_url"]["url"] == "data:image/png;base64,AAAA"


async def test_tool_choice_on_the_wire(on_wire: Adapter) -> None:
    model = await on_wire.model()
    await ask(model.bind_tools([add], tool_choice="any"), "x")
    await ask(model.bind_tools([add], tool_choice="add"), "x")
    assert on_wire.sent()[0]["tool_choice"] == "required"
    assert on_wire.sent()[1]["tool_choice"] == {"type": "function", "function": {"name": "add"}}


ERRORS = [
    (401, None, ModelAuthError),
    (402, None, ModelPaymentError),
    (400, None, ModelRequestError),
    (400, {"error": {"code": "context_length_exceeded", "message": "m"}}, ContextOverflowError),
    (429, None, RateLimitError),
    (500, None, ModelUnavailableError),
]


@pytest.mark.parametrize(("status", "error", "kind"), ERRORS)
async def test_errors(
    adapter: Adapter, status: int, error: dict[str, Any] | None, kind: type[ModelError]
) -> None:
    model = await adapter.model(Turn(status=status, error=error))
    with pytest.raises(ModelError) as caught:
        await ask(model, "go")
    assert type(caught.value) is kind
    assert "k-secret" not in str(caught.value)


async def test_retry_after_of_a_rate_limit(on_wire: Adapter) -> None:
    model = await on_wire.model(Turn(status=429, headers={"retry-after": "7"}))
    with pytest.raises(RateLimitError) as caught:
        await ask(model, "go")
    assert caught.value.retry_after == 7
    assert caught.value.model == "main"


async def test_error_inside_the_stream(on_wire: Adapter) -> None:
    error = {"error": {"message": "Overloaded", "type": "overloaded_error"}}
    model = await on_wire.model(Turn(text="half", error_in_stream=error))
    with pytest.raises(ModelUnavailableError):
        await ask(model, "go")


async def test_endpoint_that_is_gone(on_wire: Adapter) -> None:
    model = await on_wire.model()
    await on_wire.stack.aclose()
    with pytest.raises(ModelUnavailableError, match="base_url"):
        await ask(model, "go")


async def test_structured_output(on_wire: Adapter) -> None:
    model = await on_wire.model(Turn(calls=[Call("add", {"a": 4, "b": 5})]))
    schema = {
        "title": "add",
        "description": "Numbers.",
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    }
    assert await model.with_structured_output(schema).ainvoke("go") == {"a": 4, "b": 5}


async def test_sync_door_is_closed(adapter: Adapter) -> None:
    model = await adapter.model(Turn(text="x"))
    with pytest.raises(UsageError, match="async"):
        model.invoke("go")
