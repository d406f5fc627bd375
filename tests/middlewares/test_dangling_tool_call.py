"""Row 5: what is sent is legal, what was legal passes untouched."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from deerflow.agent.build import AgentParts, build_agent
from deerflow.middlewares.dangling_tool_call import (
    INTERRUPTED,
    MALFORMED,
    DanglingToolCallMiddleware,
    is_legal,
    repaired,
)
from deerflow.models.scripted import ScriptedChatModel
from fakes.rows import calls, result, run_context, tool, turn, user

ROW = DanglingToolCallMiddleware()


async def sent(messages: list[Any]) -> list[AnyMessage]:
    before = [message.model_copy(deep=True) for message in messages]
    received, _ = await turn([ROW], {"messages": messages}, run_context())
    assert messages == before, "the stored history is not rewritten"
    assert received is not None
    assert is_legal(received)
    return received


def kinds(messages: list[AnyMessage]) -> list[str]:
    return [f"{m.type}:{m.tool_call_id if isinstance(m, ToolMessage) else m.id}" for m in messages]


async def test_p01_a_several_requests_after_a_result_are_legal_and_all_kept() -> None:
    messages = [
        user("1", id="u1"),
        calls("a"),
        result("a"),
        *(user("?", id=f"u{n}") for n in (2, 3)),
    ]
    assert await sent(messages) is messages


async def test_p01_b_a_missing_result_is_filled_in_its_place() -> None:
    messages = [user("1", id="u1"), calls("a", "b"), result("a"), user("go on", id="u2")]
    received = await sent(messages)
    assert kinds(received) == ["human:u1", "ai:a1", "tool:c-a", "tool:c-b", "human:u2"]
    assert received[2] is messages[2]
    assert received[3].content == INTERRUPTED
    assert isinstance(received[3], ToolMessage)
    assert (received[3].status, received[3].name) == ("error", "b")
    assert await sent(messages) == received, "the same bytes on every turn"


async def test_p01_c_results_come_back_into_the_order_of_the_calls() -> None:
    messages = [user("1", id="u1"), calls("a", "b"), result("b"), result("a")]
    assert kinds(await sent(messages)) == ["human:u1", "ai:a1", "tool:c-a", "tool:c-b"]


async def test_foreign_messages_between_call_and_result_move_after_the_results() -> None:
    messages = [
        calls("a", "b"),
        user("hello?", id="u1"),
        result("a"),
        SystemMessage("note", id="s"),
        result("b"),
        user("still there?", id="u2"),
    ]
    assert kinds(await sent(messages)) == [
        "ai:a1",
        "tool:c-a",
        "tool:c-b",
        "human:u1",
        "system:s",
        "human:u2",
    ]


async def test_orphans_and_second_results_are_dropped() -> None:
    first = result("a", "first")
    messages = [result("x"), user("1", id="u1"), calls("a"), first, result("a", "again", id="r2")]
    received = await sent(messages)
    assert kinds(received) == ["human:u1", "ai:a1", "tool:c-a"]
    assert received[2] is first


async def test_ids_that_come_back_every_turn_belong_to_the_nearest_call() -> None:
    one, two = calls("a", id="a1"), calls("a", id="a2")
    messages = [one, result("a", "one"), two, result("a", "two", id="r2")]
    assert await sent(messages) is messages
    late = [one, user("?", id="u"), two, result("a", "two", id="r2")]
    received = await sent(late)
    assert [m.content for m in received if isinstance(m, ToolMessage)] == [INTERRUPTED, "two"]


async def test_calls_at_the_very_end_are_answered() -> None:
    assert kinds(await sent([user("1", id="u1"), calls("a")])) == ["human:u1", "ai:a1", "tool:c-a"]


async def test_malformed_calls_become_legal_ones_with_an_error() -> None:
    broken = AIMessage(
        content="let me look",
        id="a1",
        tool_calls=[{"name": "ls", "args": {}, "id": "c-ls", "type": "tool_call"}],
        invalid_tool_calls=[
            {"name": "bash", "args": '{"comm', "id": None, "error": "", "type": "invalid_tool_call"}
        ],
    )
    received = await sent([user("1", id="u1"), broken, user("2", id="u2")])
    assert kinds(received) == ["human:u1", "ai:a1", "tool:c-ls", "tool:call_a1_1", "human:u2"]
    assert isinstance(received[1], AIMessage)
    assert received[1].invalid_tool_calls == []
    assert received[1].tool_calls[1]["args"] == {}
    assert [received[2].content, received[3].content] == [INTERRUPTED, MALFORMED]


async def test_p01_a_damaged_thread_goes_on_and_stays_as_it_was_stored() -> None:
    model = ScriptedChatModel(script=["All good."])
    graph = build_agent(
        AgentParts(model, [tool("look")], "You help.", [DanglingToolCallMiddleware()])
    )
    damage = [user("1", id="u1"), calls("a", "b"), result("b"), user("2", id="u2"), user("3")]
    state = await graph.ainvoke({"messages": damage}, context=run_context())
    kinds = [m.type for m in model.requests[0].messages]
    assert kinds == ["system", "human", "ai", "tool", "tool", "human", "human"]
    assert state["messages"][:-1] == damage


@st.composite
def transcripts(draw: st.DrawFn) -> list[AnyMessage]:
    """Any mixture of requests, calls and results, ids from a small pool."""
    names = st.sampled_from("abc")
    messages: list[AnyMessage] = []
    for number in range(draw(st.integers(0, 8))):
        match draw(st.sampled_from(["human", "ai", "tool"])):
            case "human":
                messages.append(user("x", id=f"m{number}"))
            case "ai":
                picked = draw(st.lists(names, max_size=3, unique=True))
                messages.append(calls(*picked, id=f"m{number}"))
            case _:
                messages.append(result(draw(names), id=f"m{number}"))
    return messages


@given(transcripts())
def test_p01_any_transcript_becomes_legal_and_loses_no_word_of_the_user(
    messages: list[AnyMessage],
) -> None:
    out = repaired(messages)
    assert is_legal(out)
    assert [m.id for m in out if isinstance(m, HumanMessage)] == [
        m.id for m in messages if isinstance(m, HumanMessage)
    ]
    assert repaired(out) == out
    if is_legal(messages):
        assert out == messages
