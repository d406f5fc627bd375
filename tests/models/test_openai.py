"""What only our own client does: odd endpoints, sessions, callbacks, byte-level details."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import LLMResult
from langchain_core.tools import tool

from deerflow.errors import (
    ModelError,
    ModelRequestError,
    ModelTimeoutError,
    ModelUnavailableError,
    UsageError,
)
from deerflow.models import transport
from deerflow.models.openai import OpenAIChatModel
from deerflow.models.pool import SessionPool
from deerflow.models.protocol import ModelSpec, delta_sink
from deerflow.models.quirks import bad_calls
from deerflow.models.wire import WireModel
from fakes.openai_endpoint import Call, OpenAIEndpoint, Turn


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def lean(endpoint: OpenAIEndpoint, **keys: Any) -> OpenAIChatModel:
    return OpenAIChatModel(**{"model": "m", "base_url": endpoint.base_url, "api_key": "k", **keys})


@pytest.mark.parametrize(
    "dialect", ["openai", "no_index", "whole", "object", "same_index", "empty_ids"]
)
async def test_calls_of_every_dialect(dialect: Any) -> None:
    calls = [Call("add", {"a": n, "b": -n}, id=f"c{n}") for n in range(3)]
    async with OpenAIEndpoint(Turn(calls=calls, dialect=dialect)) as endpoint:
        reply = await lean(endpoint).bind_tools([add]).ainvoke("go")
    assert [c["id"] for c in reply.tool_calls] == ["c0", "c1", "c2"]
    assert [c["args"] for c in reply.tool_calls] == [{"a": n, "b": -n} for n in range(3)]


@pytest.mark.parametrize("dialect", ["whole", "same_index", "openai"])
async def test_parallel_calls_with_one_id_are_told_apart(dialect: Any) -> None:
    calls = [Call("add", {"a": n, "b": n}, id="call_0") for n in range(3)]
    async with OpenAIEndpoint(Turn(calls=calls, dialect=dialect)) as endpoint:
        reply = await lean(endpoint).ainvoke("go")
    assert [c["args"]["a"] for c in reply.tool_calls] == [0, 1, 2]
    assert len({c["id"] for c in reply.tool_calls}) == 3


async def test_calls_without_id_or_arguments() -> None:
    calls = [Call("add", "", id=None), Call("", {}, id=None)]
    async with OpenAIEndpoint(Turn(calls=calls)) as endpoint:
        reply = await lean(endpoint).ainvoke("go")
    assert reply.tool_calls[0]["args"] == {} and reply.tool_calls[0]["id"]
    assert list(bad_calls(reply)) == [1]
    assert reply.tool_calls[1]["name"] == "unknown_tool"


def sse(*payloads: str, end: str = "\n\n") -> bytes:
    return "".join(f"data: {payload}{end}" for payload in payloads).encode()


CHUNKS = (
    '{"choices":[{"index":0,"delta":{"role":"assistant","content":"gr"}}]}',
    '{"choices":[{"index":0,"delta":{"content":"üß 🦌"}}]}',
    '{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
)


@pytest.mark.parametrize(
    "frames",
    [
        [sse(*CHUNKS, "[DONE]")],
        [sse(*CHUNKS)],
        [sse(*CHUNKS, end="\r\n\r\n")],
        [b": hello\n\nevent: message\nid: 1\n" + sse(*CHUNKS, end="\n: comment\n\n")],
        [sse(*CHUNKS, end="\n")],
        [sse(*CHUNKS)[:-2]],
        [sse(*CHUNKS)[at : at + 1] for at in range(len(sse(*CHUNKS)))],
        [b'data: {"choices":\ndata: [{"delta":{"content":"gr\xc3\xbc\xc3\x9f \xf0\x9f\xa6\x8c"},\n'
         b'data: "finish_reason":"stop"}]}\n\n'],
        [sse(r'{"choices":[{"delta":{"content":"grüß \ud83e"}}]}',
             r'{"choices":[{"delta":{"content":"\udd8c"},"finish_reason":"stop"}]}')],
    ],
    ids=["plain", "no-done", "crlf", "comments", "no-blank-lines", "no-last-blank", "bytewise",
         "many-data-lines", "surrogate-halves"],
)  # fmt: skip
async def test_every_form_of_stream(frames: list[bytes]) -> None:
    async with OpenAIEndpoint(Turn(frames=frames)) as endpoint:
        reply = await lean(endpoint).ainvoke("go")
    assert reply.content == "grüß 🦌"


@pytest.mark.parametrize(
    "frames",
    [
        [b"data: {]\n\n"],
        [b"<html>no</html>"],
        [sse(CHUNKS[0])],
        [b""],
    ],
    ids=["not-json", "html", "no-end", "nothing"],
)
async def test_broken_streams_are_errors(frames: list[bytes]) -> None:
    async with OpenAIEndpoint(Turn(frames=frames)) as endpoint:
        with pytest.raises(ModelUnavailableError):
            await lean(endpoint).ainvoke("go")


async def test_connection_cut_in_mid_answer() -> None:
    async with OpenAIEndpoint(Turn(text="a long answer that is cut", cut=True)) as endpoint:
        with pytest.raises(ModelUnavailableError):
            await lean(endpoint).ainvoke("go")


async def test_silence_is_a_timeout() -> None:
    async with OpenAIEndpoint(Turn(stall="first")) as endpoint:
        with pytest.raises(ModelTimeoutError):
            await lean(endpoint, timeout=0.05).ainvoke("go")


async def test_endpoint_that_does_not_stream() -> None:
    turn = Turn(text="whole", reasoning="hm", calls=[Call("add", {"a": 1, "b": 2}, id="c")])
    async with OpenAIEndpoint(turn) as endpoint:
        reply = await lean(endpoint, streaming=False).ainvoke("go")
    assert "stream" not in endpoint.requests[0].body
    assert (reply.content, reply.tool_calls[0]["id"]) == ("whole", "c")
    assert reply.additional_kwargs["reasoning_content"] == "hm"
    assert reply.usage_metadata is not None


async def test_opaque_fields_of_a_message() -> None:
    """Signatures are kept, Gemini's mark of a thinking piece is not, details are put together."""
    frames = [
        sse(
            '{"choices":[{"delta":{"content":"<thought>a","extra_content":{"google":{"thought":true}}}}]}',
            '{"choices":[{"delta":{"content":"</thought>b"}}]}',
            '{"choices":[{"delta":{"reasoning_details":[{"type":"t","index":0,"text":"x"}]}}]}',
            '{"choices":[{"delta":{"reasoning_details":[{"type":"t","index":0,"text":"y"}]}}]}',
        )
        + sse("[DONE]")
    ]
    async with OpenAIEndpoint(Turn(frames=frames)) as endpoint:
        reply = await lean(endpoint).ainvoke("go")
    assert reply.content == "b"
    assert reply.response_metadata["finish_reason"] == "stop"
    assert "extra_content" not in reply.additional_kwargs
    assert reply.additional_kwargs["reasoning_details"] == [{"type": "t", "index": 0, "text": "xy"}]


async def test_cached_and_reasoning_tokens() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 12},
    }
    async with OpenAIEndpoint(Turn(text="x", usage=usage)) as endpoint:
        reply = await lean(endpoint).ainvoke("go")
    assert reply.usage_metadata == {
        "input_tokens": 100,
        "output_tokens": 20,
        "total_tokens": 120,
        "input_token_details": {"cache_read": 64},
        "output_token_details": {"reasoning": 12},
    }


async def test_constructor_keys_reach_the_body() -> None:
    keys = {
        "temperature": 0,
        "top_p": 0.5,
        "max_tokens": 9,
        "reasoning_effort": "low",
        "max_retries": 2,
        "extra_body": {"top_k": 1},
        "model_kwargs": {"logit_bias": {}},
        "min_p": 0.1,
        "extra_headers": {"x-team": "deer"},
        "organization": "org",
    }
    async with OpenAIEndpoint() as endpoint:
        await lean(endpoint, **keys).ainvoke("go", stop=["END"])
    request = endpoint.requests[0]
    del request.body["messages"], request.body["stream"], request.body["stream_options"]
    assert request.body == {
        "model": "m",
        "temperature": 0,
        "top_p": 0.5,
        "max_tokens": 9,
        "reasoning_effort": "low",
        "top_k": 1,
        "logit_bias": {},
        "min_p": 0.1,
        "stop": ["END"],
    }
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert headers["x-team"] == "deer" and headers["openai-organization"] == "org"
    assert headers["authorization"] == "Bearer k"


async def test_same_messages_and_tools_give_the_same_bytes() -> None:
    history = [SystemMessage("S"), HumanMessage("hi"), AIMessage("yes"), HumanMessage("more")]
    async with OpenAIEndpoint() as endpoint:
        model = lean(endpoint)
        assert model.bind_tools([add]) is model.bind_tools([add])
        for _ in range(2):
            await model.bind_tools([add]).ainvoke(history)
    assert endpoint.requests[0].raw == endpoint.requests[1].raw


async def test_text_that_is_not_utf8_does_not_brick_the_thread() -> None:
    call = {"name": "add", "args": {"a": "\udcff", "n": 2**70}, "id": "c", "type": "tool_call"}
    history = [
        HumanMessage("bad \ud800 half"),
        AIMessage("", tool_calls=[call]),
        ToolMessage("\udcff", tool_call_id="c"),
    ]
    async with OpenAIEndpoint() as endpoint:
        assert (await lean(endpoint).bind_tools([add]).ainvoke(history)).content == "ok"
    assert endpoint.requests[0].messages[0]["content"] == "bad ? half"


async def test_keys_stay_out_of_errors_and_reprs() -> None:
    turn = Turn(status=400, error={"error": {"message": "bad key sk-abcdef1234567 in /srv/app/x"}})
    async with OpenAIEndpoint(turn) as endpoint:
        model = lean(endpoint, api_key="sk-abcdef1234567", extra_headers={"x-key": "hush"})
        with pytest.raises(ModelError) as caught:
            await model.ainvoke("go")
    for text in (str(caught.value), repr(model), str(model.model_dump())):
        assert "sk-abcdef1234567" not in text and "hush" not in text
    assert "/srv/app" not in str(caught.value)


class Watcher(AsyncCallbackHandler):
    """Counts what a tracer would see."""

    def __init__(self) -> None:
        self.starts = 0
        self.tokens: list[str] = []
        self.ends: list[LLMResult] = []

    async def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        self.starts += 1

    async def on_llm_new_token(self, token: Any, **kwargs: Any) -> None:
        self.tokens.append(token)

    async def on_llm_end(self, response: LLMResult, **kwargs: Any) -> None:
        self.ends.append(response)


async def test_callbacks_see_one_model_run() -> None:
    watcher = Watcher()
    turn = Turn(text="watched", calls=[Call("add", {"a": 1, "b": 1}, id="c")])
    async with OpenAIEndpoint(turn) as endpoint:
        model = WireModel(inner=lean(endpoint), spec=ModelSpec("main", "fake", "m"))
        reply = await model.bind_tools([add]).ainvoke("go", {"callbacks": [watcher]})
    assert (watcher.starts, len(watcher.ends)) == (1, 1)
    assert reply.content == "watched"
    assert watcher.ends[0].generations[0][0].text == "watched"


async def test_astream_events_and_malformed_calls() -> None:
    """A watched call streams true chunks, and half-written arguments still never run."""
    turn = Turn(
        text="some text",
        calls=[Call("add", '{"a": 1', id="c0"), Call("add", "{]", id="c1"), Call("add", id="c2")],
    )
    names: list[str] = []
    reply: AIMessage | None = None
    async with OpenAIEndpoint(turn) as endpoint:
        agent = create_agent(
            WireModel(inner=lean(endpoint), spec=ModelSpec("main", "fake", "m")), [add]
        )
        async for event in agent.astream_events({"messages": [HumanMessage("go")]}, version="v2"):
            names.append(event["event"])
            if event["event"] == "on_chain_end" and event["name"] == "LangGraph":
                reply = event["data"]["output"]["messages"][1]
    assert names.count("on_chat_model_start") == 2
    assert names.count("on_chat_model_stream") > 2
    assert reply is not None
    assert reply.invalid_tool_calls == []
    assert [(c["id"], c["args"]) for c in reply.tool_calls] == [("c0", {}), ("c1", {}), ("c2", {})]
    assert list(bad_calls(reply)) == [0, 1]


async def test_messages_stream_of_langgraph_hears_tokens() -> None:
    async with OpenAIEndpoint(Turn(text="one two three", piece=4)) as endpoint:
        agent = create_agent(
            WireModel(inner=lean(endpoint), spec=ModelSpec("main", "fake", "m")), [add]
        )
        texts = [
            chunk.text
            async for chunk, _ in agent.astream(
                {"messages": [HumanMessage("go")]}, stream_mode="messages"
            )
        ]
    assert "".join(texts) == "one two three"


async def test_agent_loop_with_tools() -> None:
    turns = (Turn(calls=[Call("add", {"a": 2, "b": 3}, id="call_0")]), Turn(text="5"))
    async with OpenAIEndpoint(*turns) as endpoint:
        model = WireModel(inner=lean(endpoint), spec=ModelSpec("main", "fake", "m"))
        result = await create_agent(model, [add]).ainvoke({"messages": [HumanMessage("2+3")]})
    assert [m.type for m in result["messages"]] == ["human", "ai", "tool", "ai"]
    assert endpoint.requests[1].messages[-1]["content"] == "5"


def test_sessions_follow_their_event_loops() -> None:
    """Three loops one after the other, no session shared, none left open, no warning."""
    pool = SessionPool()

    async def once() -> str:
        async with OpenAIEndpoint() as endpoint:
            return (await lean(endpoint, pool=pool).ainvoke("go")).text

    assert [asyncio.run(once()) for _ in range(3)] == ["ok"] * 3
    gc.collect()


async def test_a_dropped_model_closes_its_session() -> None:
    async with OpenAIEndpoint() as endpoint:
        model = lean(endpoint)
        await model.bind_tools([add]).ainvoke("go")
        session = await model.pool.session()
        del model
        gc.collect()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert session.closed


async def test_aclose_and_use_again() -> None:
    async with OpenAIEndpoint() as endpoint:
        model = lean(endpoint)
        await model.ainvoke("go")
        session = await model.pool.session()
        await model.aclose()
        assert session.closed
        assert (await model.ainvoke("go")).text == "ok"
        await model.aclose()


async def test_models_share_one_session() -> None:
    pool = SessionPool()
    async with OpenAIEndpoint() as endpoint:
        await asyncio.gather(*(lean(endpoint, pool=pool).ainvoke("go") for _ in range(5)))
        assert await pool.session() is await pool.session()


async def test_cancelling_closes_the_connection() -> None:
    async with OpenAIEndpoint(Turn(text="abcdefgh", stall="middle")) as endpoint:
        started = asyncio.Event()
        token = delta_sink.set(lambda kind, text: started.set())
        task = asyncio.ensure_future(lean(endpoint).ainvoke("go"))
        delta_sink.reset(token)
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await endpoint.idle()
    assert endpoint.active == 0


async def test_sync_calls_say_what_to_do() -> None:
    with pytest.raises(UsageError, match="ainvoke"):
        OpenAIChatModel(model="m").invoke("go")


def event(delta: str, rest: str = "") -> bytes:
    return f'data: {{"choices":[{{"index":0,"delta":{delta}}}]{rest}}}\n\n'.encode()


@pytest.mark.parametrize(
    "usage",
    [
        '{"prompt_tokens":-5,"completion_tokens":"many","total_tokens":1e300}',
        '{"prompt_tokens":[]}',
    ],
)
async def test_nonsense_in_the_usage_does_not_cost_the_answer(usage: str) -> None:
    frames = [event('{"content":"fine"}', f',"usage":{usage}'), b"data: [DONE]\n\n"]
    async with OpenAIEndpoint(Turn(frames=frames)) as endpoint:
        reply = await lean(endpoint).ainvoke("go")
    assert reply.content == "fine"
    assert reply.usage_metadata == {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}


async def test_bytes_that_are_no_utf8_do_not_cost_the_answer() -> None:
    frames = [event('{"content":"f??e"}').replace(b"??", b"\xff\xfe"), b"data: [DONE]\n\n"]
    async with OpenAIEndpoint(Turn(frames=frames)) as endpoint:
        assert (await lean(endpoint).ainvoke("go")).content == "f\ufffd\ufffde"


@pytest.mark.parametrize(
    "delta",
    ['{"tool_calls":[null]}', '{"tool_calls":"x"}', '{"tool_calls":5}', '"text"', '{"content":7}'],
)
async def test_chunks_of_another_shape_are_an_error_of_the_endpoint(delta: str) -> None:
    async with OpenAIEndpoint(Turn(frames=[event(delta)])) as endpoint:
        with pytest.raises(ModelUnavailableError, match="not a chat completion"):
            await lean(endpoint).ainvoke("go")


@pytest.mark.parametrize("frame", [b"data: " + b"x" * 100_000, event('{"content":"0123456789"}')])
async def test_an_answer_without_end_is_broken_off(
    frame: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "MAX_PAYLOAD", 200_000)
    monkeypatch.setattr(transport, "MAX_ANSWER", 35)
    async with OpenAIEndpoint(Turn(frames=[frame] * 4)) as endpoint:
        with pytest.raises(ModelRequestError, match="no end"):
            await lean(endpoint).ainvoke("go")


async def test_of_a_long_error_only_the_beginning_is_read() -> None:
    error = "E" * 5_000_000
    async with OpenAIEndpoint(Turn(status=400, error={"error": {"message": error}})) as endpoint:
        with pytest.raises(ModelRequestError, match="EEEE") as refused:
            await lean(endpoint).ainvoke("go")
    assert len(str(refused.value)) < 1000
