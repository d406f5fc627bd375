"""Results as rows handle them."""

from langchain_core.messages import ToolMessage
from langgraph.types import Command

from deerflow.middlewares.results import messages_of, refusal, rewrite, update_of
from fakes.rows import request, run_context


async def louder(message: ToolMessage) -> ToolMessage:
    return message.model_copy(update={"content": f"{message.content}!"})


async def same(message: ToolMessage) -> ToolMessage:
    return message


def test_a_refusal_answers_its_call() -> None:
    message = refusal(request(None, run_context(), name="x"), "Error: no.")
    assert (message.name, message.tool_call_id, message.status) == ("x", "c-x", "error")


async def test_messages_are_changed_wherever_they_are() -> None:
    one, two = ToolMessage("a", tool_call_id="1"), ToolMessage("b", tool_call_id="2")
    changed = await rewrite(one, louder)
    assert messages_of(changed)[0].content == "a!"
    command = Command(update={"messages": [one, two], "todos": []}, goto="x")
    changed = await rewrite(command, louder)
    assert [m.content for m in messages_of(changed)] == ["a!", "b!"]
    assert update_of(changed)["todos"] == []
    assert isinstance(changed, Command)
    assert changed.goto == "x"
    assert one.content == "a"


async def test_what_is_not_changed_stays_the_same_object() -> None:
    one = ToolMessage("a", tool_call_id="1")
    command = Command(update={"messages": [one]})
    bare = Command(goto="x")
    for result in (one, command, bare):
        assert await rewrite(result, same) is result
    assert messages_of(bare) == []
    assert update_of(one) == {}
