"""The reply edge: malformed calls become legal, empty answers are asked for again and marked."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import ModelCall, ModelReply
from deerflow.agent.reply_edge import EMPTY, MALFORMED, NOTE, ReplyEdge, only_intent
from deerflow.models.scripted import ScriptedChatModel
from fakes.agents import ModelRows
from fakes.catalogs import ScriptedCatalog
from fakes.rows import events, run_context, tool

TOOLS = ["bash", "write_file", "read_file"]
EDGE = ReplyEdge()


async def ask(script: list[Any], run: RunContext | None = None) -> tuple[ModelReply, Any]:
    model = ScriptedChatModel(script=script)
    messages: list[Any] = [
        HumanMessage("go"),
        AIMessage("", tool_calls=[{"name": "bash", "args": {}, "id": "c1"}]),
        ToolMessage("done", tool_call_id="c1"),
    ]

    async def terminal(call: ModelCall) -> ModelReply:
        reply = await call.model.ainvoke(call.messages)
        assert isinstance(reply, AIMessage)
        return ModelReply(reply)

    tools = [tool(name) for name in TOOLS]
    state = {"messages": messages}
    call = ModelCall(model, messages, None, tools, {}, state, run or run_context(), 2)
    return await EDGE.model(call, terminal), model


NOTHING = [
    {"text": ""},
    {"text": " \n\t"},
    {"reasoning": "I think that is all."},
    {"text": '<tool_call>{"name": "write_file", "arguments": {"path": "r.md"}}</tool_call>'},
    {"text": "I'll write the report now."},
]


@pytest.mark.parametrize("turn", NOTHING)
async def test_p18_an_empty_last_message_is_asked_for_once_more(turn: dict[str, Any]):
    run = run_context()
    reply, model = await ask([turn, "Here it is."], run)
    assert reply.message is not None and reply.message.text == "Here it is."
    assert EMPTY not in reply.message.additional_kwargs
    assert len(model.requests) == 2
    assert model.requests[1].messages[-1].type == "human"
    (told,) = await events(run, "model_retry")
    assert told["code"] == "empty_answer"


@pytest.mark.parametrize("turn", NOTHING)
async def test_p18_an_answer_that_stays_empty_is_visible_and_marked(turn: dict[str, Any]):
    reply, model = await ask([{**turn, "times": 2}])
    assert reply.message is not None
    assert NOTE in reply.message.text
    assert reply.message.additional_kwargs[EMPTY] is True
    assert model.remaining == 0, "one retry, not more"


async def test_p18_the_retry_may_call_a_tool():
    reply, _ = await ask([{"text": ""}, {"calls": [{"name": "bash", "args": {}}]}])
    assert reply.message is not None and len(reply.message.tool_calls) == 1
    assert EMPTY not in reply.message.additional_kwargs


async def test_reasoning_of_a_marked_message_stays_hidden_and_kept():
    reply, _ = await ask([{"reasoning": "secret", "times": 2}])
    assert reply.message is not None
    assert "secret" not in reply.message.text
    assert reply.message.additional_kwargs["reasoning_content"] == "secret"


async def test_the_tokens_of_both_calls_are_in_the_message():
    usage = {"input": 5, "output": 1}
    reply, _ = await ask([{"text": "", "usage": usage}, {"text": "x", "usage": usage}])
    assert reply.message is not None and reply.message.usage_metadata is not None
    assert reply.message.usage_metadata["total_tokens"] == 12


async def test_answers_and_calls_pass_untouched():
    reply, model = await ask(["An answer."])
    assert reply.message is not None and reply.message.text == "An answer."
    reply, model = await ask([{"text": "", "calls": [{"name": "bash", "args": {}}]}])
    assert len(model.requests) == 1


async def test_a_picture_alone_is_an_answer():
    part = {"type": "image_url", "image_url": {"url": "https://x/y.png"}}

    async def terminal(_call: ModelCall) -> ModelReply:
        return ModelReply(AIMessage([part]))

    messages: list[Any] = [HumanMessage("draw")]
    call = ModelCall(
        ScriptedChatModel(), messages, None, [], {}, {"messages": messages}, run_context(), 1
    )
    reply = await EDGE.model(call, terminal)
    assert reply.message is not None and reply.message.content == [part]


async def test_malformed_calls_become_legal_ones_with_a_result():
    reply, _ = await ask(
        [{"calls": [{"name": "bash", "args": {"a": 1}}, {"name": "bash", "args": "{broken"}]}]
    )
    message = reply.message
    assert message is not None and message.invalid_tool_calls == []
    assert [call["args"] for call in message.tool_calls] == [{"a": 1}, {}]
    (result,) = reply.results
    assert result.tool_call_id == message.tool_calls[1]["id"]
    assert result.content == MALFORMED and result.status == "error"


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>',
        "<function=bash>ls</function>",
        '<|tool_call|>{"name": "x"}<|/tool_call|>',
        '[TOOL_CALLS] [{"name": "bash", "arguments": {}}]',
        '{"name": "bash", "arguments": {"command": "ls"}}',
        '```json\n{"tool": "write_file", "path": "r.md"}\n```',
        '[{"name": "bash", "arguments": {}}]',
        'write_file(path="r.md", content="x")',
        '`functions.bash({"command": "ls"})`',
        "Action: bash\nAction Input: ls",
        'Let me look: <tool_call>{"name": "bash"}</tool_call>',
        "I'll call write_file now",
        "Let me check the file:",
        "Okay, now I will create the report.",
        "Next, I’m going to run the tests.",
    ],
)
def test_texts_that_are_only_an_intent(text: str):
    assert only_intent(text, TOOLS)


@pytest.mark.parametrize(
    "text",
    [
        "The file has 3 lines.",
        "Let me know if you need anything else.",
        "I will remember that.",
        '{"name": "Ada", "age": 36}',
        '{"name": "bash"',
        "print(1)",
        "I'll run through it. First, the cache is cold; then the index is built.",
        "Let me explain: a tool is a function.",
        "Use `<tool_call>` tags around the JSON, as the manual says, and close them again. "
        "<tool_call>{}</tool_call> is an empty one.",
        "I wrote the report to /mnt/user-data/outputs/report.md.",
        "Should I run the tests?",
    ],
)
def test_texts_that_are_answers(text: str):
    assert not only_intent(text, TOOLS)


def test_without_tools_nothing_is_an_intent():
    assert not only_intent("I'll write the report now.", [])


# ---- through the chain ---------------------------------------------------------------------------

WORK = {"name": "work", "args": {"step": "a"}}


async def test_p18_through_the_chain_the_retry_is_not_stored_and_the_mark_is():
    agent = ModelRows(ScriptedCatalog(main=[{"calls": [WORK]}, {"text": ""}, {"text": " "}]))
    run = run_context()
    messages = await agent.run(run=run)
    assert [m.type for m in messages] == ["ai", "tool", "ai"]
    assert messages[-1].additional_kwargs[EMPTY] is True
    assert run.turn == 2
    shown = [e["message"] for e in await events(run, "message")]
    assert NOTE in shown[-1]["content"]


async def test_p18_through_the_chain_a_second_try_is_the_answer():
    agent = ModelRows(ScriptedCatalog(main=[{"reasoning": "hm"}, "The answer."]))
    messages = await agent.run()
    assert [m.text for m in messages] == ["The answer."]


async def test_p18_through_the_chain_a_stopped_answer_runs_nothing():
    turn = {"text": "I", "calls": [WORK], "finish_reason": "content_filter"}
    agent = ModelRows(ScriptedCatalog(main=[turn]))
    messages = await agent.run()
    assert [m.type for m in messages] == ["ai"] and "safety reasons" in messages[0].text
    assert agent.effects == []


async def test_through_the_chain_cut_and_malformed_calls_are_answered_in_place():
    cut = {"calls": [WORK, {"name": "work", "args": '{"step": "hal'}], "finish_reason": "length"}
    bad = {"calls": [{"name": "work", "args": "{nonsense"}, WORK]}
    agent = ModelRows(ScriptedCatalog(main=[cut, bad, "done"]))
    messages = await agent.run()
    assert [m.type for m in messages] == ["ai", "tool", "tool", "ai", "tool", "tool", "ai"]
    assert agent.effects == ["a"]
    assert all(not m.invalid_tool_calls for m in messages if isinstance(m, AIMessage))
