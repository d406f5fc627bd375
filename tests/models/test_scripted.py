"""The scripted model plays, streams, records, and fails loudly."""

import asyncio

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage
from langchain_core.tools import tool

from deerflow import errors
from deerflow.models.protocol import delta_sink
from deerflow.models.scripted import ScriptedChatModel


@tool
async def look(path: str) -> str:
    """Look at a path."""
    return path


def asks(text: str) -> list[HumanMessage]:
    return [HumanMessage(text)]


async def test_plays_text_then_calls_with_usage_and_reasoning():
    model = ScriptedChatModel(
        script=[
            {"text": "on it", "calls": [{"name": "look", "args": {"path": "/a"}}]},
            {
                "text": "done",
                "reasoning": "hm hm",
                "usage": {"input": 7, "output": 3, "cached": 2, "reasoning": 1},
            },
        ]
    )
    first = await model.ainvoke(asks("go"))
    assert first.text == "on it"
    assert first.tool_calls == [
        {"name": "look", "args": {"path": "/a"}, "id": "call_1_0", "type": "tool_call"}
    ]
    assert first.response_metadata["finish_reason"] == "tool_calls"
    second = await model.ainvoke(asks("go"))
    assert second.additional_kwargs["reasoning_content"] == "hm hm"
    assert second.text == "done"
    assert second.usage_metadata is not None
    assert second.usage_metadata["total_tokens"] == 10
    assert second.usage_metadata.get("input_token_details", {}).get("cache_read") == 2
    assert model.remaining == 0
    model.assert_finished()


async def test_astream_adds_up_to_what_ainvoke_gives():
    script = [
        {
            "text": "one two  three",
            "reasoning": "let me see",
            "calls": [{"name": "look", "args": {"path": "/ä"}}, {"name": "look", "args": {}}],
            "usage": {"input": 5, "output": 6},
            "finish_reason": "stop",
        }
    ]
    whole = await ScriptedChatModel(script=script).ainvoke(asks("go"))
    total: AIMessageChunk | None = None
    texts: list[str] = []
    async for chunk in ScriptedChatModel(script=script).astream(asks("go")):
        assert isinstance(chunk, AIMessageChunk)
        texts.append(chunk.text)
        total = chunk if total is None else total + chunk
    assert [text for text in texts if text] == ["one ", "two  ", "three"]
    assert total is not None
    assert total.text == whole.text
    assert total.tool_calls == whole.tool_calls
    assert total.additional_kwargs == whole.additional_kwargs
    assert total.usage_metadata == whole.usage_metadata
    assert total.response_metadata == whole.response_metadata
    assert total.id == whole.id


async def test_ainvoke_reports_to_the_delta_sink():
    heard: list[tuple[str, str]] = []
    token = delta_sink.set(lambda kind, text: heard.append((kind, text)))
    try:
        await ScriptedChatModel(script=[{"text": "a b", "reasoning": "r"}]).ainvoke(asks("go"))
    finally:
        delta_sink.reset(token)
    assert heard == [("reasoning", "r"), ("text", "a "), ("text", "b")]


async def test_records_requests_with_tools():
    model = ScriptedChatModel(script=["hi"])
    await model.bind_tools([look], tool_choice="any").ainvoke([SystemMessage("s"), *asks("go")])
    (request,) = model.requests
    assert [message.type for message in request.messages] == ["system", "human"]
    assert request.tool_names == ["look"]
    messages, tools = request
    assert len(messages) == 2 and tools[0]["function"]["description"] == "Look at a path."


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("rate_limit", errors.RateLimitError),
        ("timeout", errors.ModelTimeoutError),
        ("server", errors.ModelUnavailableError),
        ("auth", errors.ModelAuthError),
        ("payment", errors.ModelPaymentError),
        ("request", errors.ModelRequestError),
        ("context", errors.ContextOverflowError),
        ("script", errors.ScriptError),
    ],
)
async def test_error_codes_raise_the_products_errors(code: str, kind: type[errors.ModelError]):
    with pytest.raises(kind) as caught:
        await ScriptedChatModel(script=[{"error": code}]).ainvoke(asks("go"))
    assert type(caught.value) is kind


async def test_error_after_text_breaks_in_mid_stream_and_carries_its_fields():
    failure = {"code": "rate_limit", "message": "slow down", "retry_after": 2}
    model = ScriptedChatModel(script=[{"text": "half way", "error": failure}])
    texts: list[str] = []
    with pytest.raises(errors.RateLimitError, match="slow down") as caught:
        async for chunk in model.astream(asks("go")):
            texts.append(chunk.text)
    assert texts == ["half ", "way"]
    assert caught.value.retry_after == 2


async def test_malformed_arguments_become_an_invalid_call():
    model = ScriptedChatModel(
        script=[{"calls": [{"name": "look", "args": '{"path": "/a'}, {"name": "x", "args": "{}"}]}]
    )
    reply = await model.ainvoke(asks("go"))
    assert [call["args"] for call in reply.invalid_tool_calls] == ['{"path": "/a']
    assert [call["name"] for call in reply.tool_calls] == ["x"]


async def test_asked_for_more_fails_with_number_and_request():
    model = ScriptedChatModel(script=["only"])
    await model.ainvoke(asks("first"))
    with pytest.raises(errors.ScriptError, match="holds 1 turns and number 2 .*'second'"):
        await model.bind_tools([look]).ainvoke(asks("second"))
    assert not errors.ScriptError.retryable


async def test_assert_finished_names_what_was_never_asked():
    model = ScriptedChatModel(script=["a", {"text": "b", "times": 2}])
    await model.ainvoke(asks("x"))
    assert model.remaining == 2
    with pytest.raises(errors.ScriptError, match=r"turn 2 \('b'\)"):
        model.assert_finished()


async def test_when_serves_two_runs_side_by_side():
    model = ScriptedChatModel(
        script=[
            {"text": "A1", "when": "task A"},
            {"text": "B1", "when": "task B"},
            {"text": "A2", "when": "task A"},
            {"text": "B2", "when": "task B"},
        ]
    )

    async def run(name: str) -> list[str]:
        return [(await model.ainvoke(asks(f"task {name}"))).text for _ in range(2)]

    assert await asyncio.gather(run("B"), run("A")) == [["B1", "B2"], ["A1", "A2"]]
    with pytest.raises(errors.ScriptError, match="Unplayed: none"):
        await model.ainvoke(asks("task A"))


async def test_a_mapping_chooses_its_story_by_marker():
    model = ScriptedChatModel(script={"default": ["plain"], "poem": ["rose", "tulip"]})
    assert (await model.ainvoke(asks("write script:poem now"))).text == "rose"
    assert (await model.ainvoke([*asks("script:poem"), AIMessage("rose")])).text == "tulip"
    assert (await model.ainvoke(asks("hello"))).text == "plain"
    with pytest.raises(errors.ScriptError, match="no story 'prose'.*Known stories: default, poem"):
        await model.ainvoke(asks("script:prose"))


async def test_follow_transcript_goes_on_in_a_new_process():
    script = [{"error": "server"}, "one", {"error": "rate_limit"}, "two"]
    history = [HumanMessage("go"), AIMessage("one")]
    reborn = ScriptedChatModel(script=script, follow="transcript")
    with pytest.raises(errors.RateLimitError):
        await reborn.ainvoke(history)
    assert (await reborn.ainvoke(history)).text == "two"
    assert (await reborn.ainvoke(history)).text == "two"
    with pytest.raises(errors.ModelUnavailableError):
        await reborn.ainvoke(asks("go"))
    assert (await reborn.ainvoke(asks("go"))).text == "one"
    with pytest.raises(errors.ScriptError, match="number 3"):
        await reborn.ainvoke([*history, AIMessage("two")])


async def test_ids_are_deterministic_and_differ_between_transcripts():
    async def id_of(messages: list[HumanMessage | AIMessage]) -> str | None:
        return (await ScriptedChatModel(script=["same"]).ainvoke(messages)).id

    assert await id_of([HumanMessage("a")]) == await id_of([HumanMessage("a", id="other")])
    assert await id_of([HumanMessage("a")]) != await id_of([HumanMessage("a"), AIMessage("same")])


async def test_a_long_gap_can_be_cancelled_at_once():
    model = ScriptedChatModel(script=[{"text": "very late", "gap_ms": 600_000}])
    begun = asyncio.Event()
    token = delta_sink.set(lambda _kind, _text: begun.set())
    task = asyncio.create_task(model.ainvoke(asks("go")))
    delta_sink.reset(token)
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
