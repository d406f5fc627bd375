"""Row 16: an answer that was stopped or cut runs no half-written call and says why."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import ModelCall, ModelReply
from deerflow.agent.reply_edge import EMPTY
from deerflow.errors import ContextOverflowError
from deerflow.middlewares.safety_finish_reason import (
    CONTINUE,
    STOPPED,
    SafetyFinishReasonMiddleware,
    Stop,
    built_in,
)
from deerflow.models.scripted import ScriptedChatModel
from fakes.rows import calls, events, run_context

ROW = SafetyFinishReasonMiddleware()
WRITE = {"name": "write_file", "args": {"path": "a"}}


async def run_turn(
    script: list[Any],
    run: RunContext | None = None,
    history: list[Any] | None = None,
    row: SafetyFinishReasonMiddleware = ROW,
) -> tuple[ModelReply, ScriptedChatModel]:
    model = ScriptedChatModel(script=script)
    messages = history or [HumanMessage("go")]

    async def terminal(call: ModelCall) -> ModelReply:
        reply = await call.model.ainvoke(call.messages)
        assert isinstance(reply, AIMessage)
        return ModelReply(reply)

    state = {"messages": messages}
    call = ModelCall(model, messages, None, [], {}, state, run or run_context(), 1)
    return await row.model(call, terminal), model


@pytest.mark.parametrize(
    "metadata",
    [
        {"finish_reason": "content_filter"},
        {"finish_reason": "SAFETY"},
        {"finish_reason": "FinishReason.PROHIBITED_CONTENT"},
        {"stop_reason": "refusal"},
        {"stopReason": "guardrail_intervened"},
        {"incomplete_details": {"reason": "content_filter"}},
    ],
)
def test_safety_words_of_providers(metadata: dict[str, Any]):
    stop = built_in(AIMessage("", response_metadata=metadata))
    assert stop is not None and stop.kind == "safety"


@pytest.mark.parametrize(
    "metadata",
    [
        {"finish_reason": "length"},
        {"finish_reason": "MAX_TOKENS"},
        {"stop_reason": "max_tokens"},
        {"done_reason": "length"},
        {"incomplete_details": {"reason": "max_output_tokens"}},
    ],
)
def test_length_words_of_providers(metadata: dict[str, Any]):
    stop = built_in(AIMessage("", response_metadata=metadata))
    assert stop is not None and stop.kind == "length"


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "end_turn", "tool_use", "STOP", None])
def test_ordinary_ends_are_no_stop(reason: str | None):
    assert built_in(AIMessage("x", response_metadata={"finish_reason": reason})) is None


async def test_an_ordinary_reply_passes_untouched():
    reply, model = await run_turn([{"text": "hi", "calls": [WRITE]}])
    assert reply.message is not None and reply.message.text == "hi"
    assert len(reply.message.tool_calls) == 1
    assert reply.results == [] and len(model.requests) == 1


async def test_p18_a_safety_stop_removes_the_calls_and_is_visible():
    run = run_context()
    turn = {"text": "I will", "calls": [WRITE, WRITE], "finish_reason": "content_filter"}
    reply, model = await run_turn([turn], run)
    message = reply.message
    assert message is not None and message.tool_calls == []
    assert message.text.startswith("I will\n\n[The provider stopped this answer")
    assert "content_filter" in message.text and "2 tool calls were not run" in message.text
    assert message.additional_kwargs[STOPPED] == {"kind": "safety", "reason": "content_filter"}
    assert EMPTY not in message.additional_kwargs
    assert len(await events(run, "notice")) == 1
    assert len(model.requests) == 1


async def test_p18_a_safety_stop_without_text_is_an_empty_outcome():
    reply, _ = await run_turn([{"finish_reason": "content_filter"}])
    assert reply.message is not None
    assert reply.message.additional_kwargs[EMPTY] is True
    assert "safety reasons" in reply.message.text


async def test_a_refusal_text_is_shown():
    async def terminal(_call: ModelCall) -> ModelReply:
        return ModelReply(AIMessage("", additional_kwargs={"refusal": "I cannot help."}))

    messages: list[Any] = [HumanMessage("go")]
    state = {"messages": messages}
    call = ModelCall(ScriptedChatModel(), messages, None, [], {}, state, run_context(), 1)
    reply = await ROW.model(call, terminal)
    assert reply.message is not None and "It says: I cannot help." in reply.message.text
    assert EMPTY not in reply.message.additional_kwargs


async def test_tool_use_blocks_go_with_their_calls():
    content: list[Any] = [
        {"type": "text", "text": "so far"},
        {"type": "tool_use", "id": "c-x", "name": "x", "input": {}},
    ]
    message = calls("x")
    message.content = content
    message.response_metadata = {"stop_reason": "refusal"}

    async def terminal(_call: ModelCall) -> ModelReply:
        return ModelReply(message)

    messages: list[Any] = [HumanMessage("go")]
    state = {"messages": messages}
    call = ModelCall(ScriptedChatModel(), messages, None, [], {}, state, run_context(), 1)
    reply = await ROW.model(call, terminal)
    assert reply.message is not None
    assert [part["type"] for part in reply.message.content] == ["text", "text"]  # type: ignore[index]


async def test_cut_calls_are_answered_in_place_also_malformed_ones():
    turn = {
        "calls": [WRITE, {"name": "write_file", "args": '{"path": "b", "content": "half'}],
        "finish_reason": "length",
    }
    reply, _ = await run_turn([turn])
    message = reply.message
    assert message is not None and message.invalid_tool_calls == []
    assert [c["id"] for c in message.tool_calls] == [r.tool_call_id for r in reply.results]
    assert len(reply.results) == 2
    assert all("cut at the output limit (length)" in str(r.content) for r in reply.results)
    assert all(r.status == "error" for r in reply.results)
    assert reply.jump is None


async def test_three_cut_turns_in_a_row_end_the_run_visibly():
    cut = {"text": "more", "calls": [WRITE], "finish_reason": "length"}
    history: list[Any] = [HumanMessage("go")]
    for number in range(2):
        reply, _ = await run_turn([cut], history=history)
        assert reply.message is not None and len(reply.results) == 1
        reply.message.id = f"ai-{number}"
        history += [reply.message, ToolMessage("Not run", tool_call_id="call_1_0")]
    reply, _ = await run_turn([cut], history=history)
    assert reply.message is not None and reply.message.tool_calls == []
    assert "cut at the model's output limit (length)" in reply.message.text
    whole = AIMessage("whole", response_metadata={"finish_reason": "stop"})
    reply, _ = await run_turn([cut], history=[*history, whole, HumanMessage("next")])
    assert reply.results, "a whole turn in between starts the count anew"


async def test_a_cut_text_is_continued_once_and_joined():
    run = run_context()
    first = {"text": "The first half and", "finish_reason": "length", "usage": {"output": 4}}
    second = {"text": " the second.", "usage": {"output": 3}}
    reply, model = await run_turn([first, second], run)
    message = reply.message
    assert message is not None and message.text == "The first half and the second."
    assert STOPPED not in message.additional_kwargs
    assert message.usage_metadata is not None and message.usage_metadata["output_tokens"] == 7
    assert [m.text for m in model.requests[1].messages] == ["go", "The first half and", CONTINUE]
    (told,) = await events(run, "model_retry")
    assert told["code"] == "length" and told["message_id"]


async def test_a_text_that_is_still_cut_ends_with_a_note():
    cut = {"text": "a", "finish_reason": "length", "times": 2}
    reply, model = await run_turn([cut])
    assert reply.message is not None
    assert reply.message.text.startswith("aa\n\n[The answer was cut")
    assert len(model.requests) == 2


async def test_when_the_continuation_fails_the_first_part_stays():
    reply, _ = await run_turn([{"text": "a", "finish_reason": "length"}, {"error": "context"}])
    assert reply.message is not None and reply.message.text.startswith("a\n\n[The answer was cut")
    with pytest.raises(ContextOverflowError):
        await run_turn([{"error": "context"}])


async def test_a_cut_in_the_reasoning_is_left_to_the_reply_edge():
    reply, model = await run_turn([{"reasoning": "hm", "finish_reason": "length"}])
    assert reply.message is not None and reply.message.text == ""
    assert len(model.requests) == 1


async def test_own_detectors_replace_the_built_in_one():
    row = SafetyFinishReasonMiddleware(
        [lambda message: Stop("safety", "own") if "bad" in message.text else None]
    )
    reply, _ = await run_turn([{"text": "bad"}], row=row)
    assert reply.message is not None and "(own)" in reply.message.text
    reply, _ = await run_turn([{"text": "x", "finish_reason": "content_filter"}], row=row)
    assert reply.message is not None and reply.message.text == "x"
