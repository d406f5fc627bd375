"""Ids, refusals and places of tool calls."""

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from deerflow.agent.calls import BAD_CALLS, REFUSED, CallBook


def ai(*ids: str, ident: str = "m", **extra: object) -> AIMessage:
    calls = [{"name": "ls", "args": {}, "id": i, "type": "tool_call"} for i in ids]
    return AIMessage(content="", id=ident, tool_calls=calls, additional_kwargs=dict(extra))


def test_fresh_ids_stay() -> None:
    assert [c["id"] for c in CallBook().settle(ai("a", "b"), []).tool_calls] == ["a", "b"]


def test_used_empty_and_repeated_ids_are_renamed() -> None:
    book = CallBook()
    book.catch_up([HumanMessage("x"), ai("call_0", ident="one")])
    message = book.settle(ai("call_0", "", "z", "z", ident="two"), [])
    ids = [c["id"] for c in message.tool_calls]
    assert ids == ["call_two_0", "call_two_1", "z", "call_two_3"]
    assert len(set(ids)) == 4


def test_refusals_keep_their_place_and_follow_a_renamed_id() -> None:
    book = CallBook()
    book.catch_up([ai("call_0", ident="one")])
    answer = ToolMessage(content="no", tool_call_id="call_0")
    message = book.settle(ai("call_0", "b", ident="two"), [answer])
    assert message.additional_kwargs[REFUSED] == {"call_two_0": "no"}
    assert book.place([], "call_two_0").refusal == "no"
    assert book.place([], "b").refusal is None
    assert book.place([], "b").index == 1


def test_malformed_calls_become_refusals() -> None:
    message = CallBook().settle(ai("a", "b", **{BAD_CALLS: {1: "bad JSON"}}), [])
    assert message.additional_kwargs == {REFUSED: {"b": "bad JSON"}}


def test_places_are_found_in_the_history_after_a_resume() -> None:
    stored = CallBook().settle(ai("a", "b", ident="m9"), [ToolMessage("no", tool_call_id="b")])
    place = CallBook().place([HumanMessage("x"), stored], "b")
    assert (place.message_id, place.index, place.refusal) == ("m9", 1, "no")


def test_shell_calls_of_a_turn_are_counted() -> None:
    calls = [
        {"name": n, "args": {}, "id": n + i, "type": "tool_call"}
        for n, i in (("bash", "1"), ("bash", "2"), ("ls", "3"))
    ]
    book = CallBook()
    book.settle(AIMessage(content="", id="m", tool_calls=calls), [])
    assert book.place([], "bash1").shells == 2


def test_a_shorter_history_is_read_again() -> None:
    book = CallBook()
    book.catch_up([ai("a"), ai("b"), ai("c")])
    book.catch_up([ai("z")])
    assert book.used == {"z"}
