"""Row 26: a question ends the run, whatever else is in the turn."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool

from deerflow.agent.build import AgentParts, build_agent
from deerflow.middlewares.clarification import MARK, ClarificationMiddleware, open_questions
from deerflow.middlewares.dangling_tool_call import is_legal
from deerflow.models.scripted import ScriptedChatModel
from fakes.rows import call_tool, calls, events, request, result, run_context, tool, turn, user

ROW = ClarificationMiddleware()
ASKED = {"question": "Which year?", "options": ["2025", "2026"], "context": "two reports"}


async def ask(question: str, options: list[str] | None = None, context: str = "") -> str:
    return question


async def look(what: str = "") -> str:
    return f"looked at {what}"


ASK = tool("ask_clarification", ask, ends_run=True)
LOOK = tool("look", look, idempotent=True)


async def run_agent(turns: list[Any], said: Any = None, before: Any = ()) -> Any:
    """Messages, events and model calls of a run through create_agent."""
    model = ScriptedChatModel(script=turns)
    tools: list[BaseTool] = [ASK, LOOK]
    graph = build_agent(AgentParts(model, tools, "You help.", [ROW]))
    run = run_context()
    state = await graph.ainvoke({"messages": [*before, said or user("Summarise it.")]}, context=run)
    return state["messages"], run, len(model.requests)


def question(n: int) -> dict[str, Any]:
    return {"name": "ask_clarification", "args": {"question": f"Which {n}?", "options": ["a", "b"]}}


async def test_alone_it_ends_the_run_without_another_model_call() -> None:
    messages, run, asked = await run_agent([{"calls": [question(1)]}])
    assert [m.type for m in messages] == ["human", "ai", "tool"]
    assert asked == 1
    assert await events(run, "question") == [
        {"question": "Which 1?", "options": ["a", "b"], "fields": [], "context": ""}
    ]


async def test_beside_two_calls_these_run_and_keep_their_results() -> None:
    looks = [{"name": "look", "args": {"what": what}} for what in ("a", "b")]
    messages, _, asked = await run_agent([{"calls": [looks[0], question(1), looks[1]]}])
    assert [m.content for m in messages[2:]] == ["looked at a", "Which 1?", "looked at b"]
    assert asked == 1
    assert is_legal(messages)


async def test_twice_in_a_turn_both_questions_are_told() -> None:
    messages, run, asked = await run_agent([{"calls": [question(1), question(2)]}])
    assert [q["question"] for q in open_questions(messages)] == ["Which 1?", "Which 2?"]
    assert [q["question"] for q in await events(run, "question")] == ["Which 1?", "Which 2?"]
    assert asked == 1


async def test_the_answer_of_the_user_goes_on() -> None:
    messages, _, _ = await run_agent([{"calls": [question(1)]}])
    later, _, asked = await run_agent([{"text": "Done."}], user("2026", id="in-r2"), messages)
    assert asked == 1
    assert later[-1].content == "Done."


async def test_a_call_with_wrong_arguments_asks_the_model_again() -> None:
    run = run_context()

    async def refuse(**_: Any) -> ToolMessage:
        return ToolMessage("Error", tool_call_id="c-ask_clarification", status="error")

    answer = await call_tool([ROW], run, request(ASK, run), refuse)
    assert MARK not in answer.additional_kwargs
    assert await events(run, "question") == []


async def test_odd_arguments_still_make_a_question() -> None:
    run = run_context()

    async def effect(**_: Any) -> str:
        return "asked"

    call = request(ASK, run, question=7, options="no list", context=None)
    answer = await call_tool([ROW], run, call, effect)
    assert answer.additional_kwargs[MARK] == {
        "question": "7", "options": [], "fields": [], "context": ""
    }  # fmt: skip


async def test_a_tool_of_another_kind_is_not_marked() -> None:
    run = run_context()
    answer = await call_tool([ROW], run, request(LOOK, run), look)
    assert answer.additional_kwargs == {}


@pytest.mark.parametrize(
    ("after", "ends"),
    [([], True), ([user("2026")], False), ([AIMessage("ok", id="b")], False)],
)
async def test_only_a_question_at_the_very_end_is_open(after: list[Any], ends: bool) -> None:
    asked = result("ask_clarification", additional_kwargs={MARK: ASKED})
    messages = [user("x"), calls("ask_clarification", "look"), asked, result("look"), *after]
    sent, reply = await turn([ROW], {"messages": messages}, run_context())
    assert (sent is None) == ends
    assert (reply.jump == "end") == ends
    assert (reply.message is None) == ends


async def test_a_reminder_that_a_row_put_after_the_results_hides_no_question() -> None:
    asked = result("ask_clarification", additional_kwargs={MARK: ASKED})
    state = {"messages": [user("x"), calls("ask_clarification"), asked]}

    class Reminds(ClarificationMiddleware):
        async def model(self, call: Any, next_: Any) -> Any:
            return await next_(call.with_(messages=[*call.messages, HumanMessage("plan")]))

    sent, reply = await turn([Reminds(), ROW], state, run_context())
    assert sent is None
    assert reply.jump == "end"
