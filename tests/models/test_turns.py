"""What the embedded model does in a turn, with generations that were written before."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from deerflow.errors import ContextOverflowError, ModelRequestError
from deerflow.models.grammar import Tool
from deerflow.models.turns import MAX_STEPS, Ask, Limits, Reply, Turn
from fakes.llama import WrittenSession

OUT = "/mnt/user-data/outputs/"
NOTE = f"{OUT}notes.md"
TASK = "Write a short note about deer to notes.md"
PARAGRAPH = "Deer are large mammals. They live in forests."
POINTS = "- Deer are shy.\n- Deer eat plants.\n- Deer live in herds.\n"
SMALL = Limits(n_ctx=4_096, max_tokens=300, small=True, seed=1)
LARGE = Limits(n_ctx=4_096, max_tokens=300, small=False, seed=1)


def tool(name: str, *arguments: str) -> Tool:
    properties: dict[str, Any] = {argument: {"type": "string"} for argument in arguments}
    schema = {"type": "object", "properties": properties, "required": list(arguments)}
    return Tool(name, f"Does {name}.", schema)


TOOLS = (
    tool("write_file", "path", "content"),
    tool("read_file", "path"),
    tool("bash", "command"),
    tool("ask_clarification", "question"),
)


def step(
    name: str, args: dict[str, Any], result: str, *, failed: bool = False
) -> list[BaseMessage]:
    id_ = f"call_{name}_{len(result)}"
    status = "error" if failed else "success"
    return [
        AIMessage(content="", tool_calls=[{"name": name, "args": args, "id": id_}]),
        ToolMessage(result, tool_call_id=id_, name=name, status=status),
    ]


def run(
    *texts: str | Exception,
    history: list[BaseMessage] | None = None,
    limits: Limits = SMALL,
    **settings: Any,
) -> tuple[Reply, WrittenSession]:
    session = WrittenSession(list(texts))
    messages = [SystemMessage("You are DeerFlow."), *(history or [HumanMessage(TASK)])]
    ask = Ask(messages, **{"tools": TOOLS, **settings})
    return Turn(session, ask, limits).run(), session


def called(reply: Reply) -> tuple[str | None, dict[str, Any]]:
    assert reply.call is not None
    return reply.call.tool, reply.call.args


def test_a_missing_deliverable_is_written() -> None:
    reply, session = run(PARAGRAPH, POINTS, deliverables=(NOTE,))
    name, args = called(reply)
    assert name == "write_file"
    assert args["path"] == NOTE
    assert args["content"].startswith("# Deer\n")
    assert (reply.input_tokens, reply.cached_tokens, reply.output_tokens) == (20, 4, 10)
    assert {kind for kind, _ in session.said} == {"call"}


def test_frames_of_the_harness_are_no_part_of_the_task() -> None:
    framed = (
        f"<uploads>\nreport.md\n</uploads>\n\n{TASK}\n\n"
        "<system-reminder>\nToday is Monday.\n</system-reminder>"
    )
    _, session = run(PARAGRAPH, POINTS, history=[HumanMessage(framed)], deliverables=(NOTE,))
    asked = json.dumps([one["messages"] for one in session.asked])
    assert "deer" in asked
    assert "Today" not in asked
    assert "report.md" not in asked


def test_when_all_is_written_it_says_where() -> None:
    wrote = step("write_file", {"path": NOTE, "content": f"# Deer\n\n{PARAGRAPH}"}, "Wrote 3 lines")
    reply, _ = run(
        "This text is about deer.", history=[HumanMessage(TASK), *wrote], deliverables=()
    )
    assert reply.call is None
    assert reply.text == "The file is ready: notes.md. This text is about deer."


def test_a_refused_write_is_read_then_tried_with_other_words_then_given_up() -> None:
    history: list[BaseMessage] = [HumanMessage(TASK)]
    refused = step("write_file", {"path": NOTE, "content": "x"}, "Error: not read", failed=True)
    history += refused
    reply, _ = run(history=history, deliverables=(NOTE,))
    assert called(reply) == ("read_file", {"path": NOTE})
    history += step("read_file", {"path": NOTE}, "")
    reply, session = run(PARAGRAPH, POINTS, history=history, deliverables=(NOTE,))
    assert called(reply)[0] == "write_file"
    assert session.asked[0]["seed"] == SMALL.seed + 1
    history += step("write_file", {"path": NOTE, "content": "y"}, "Error: disk full", failed=True)
    reply, _ = run(history=history, deliverables=(NOTE,))
    assert reply.call is None
    assert "could not write notes.md" in reply.text
    assert "disk full" in reply.text


def test_a_kind_of_file_that_text_is_not_is_refused_in_words() -> None:
    reply, session = run(deliverables=(f"{OUT}slides.pptx",))
    assert reply.call is None
    assert "slides.pptx" in reply.text
    assert session.said == [("text", reply.text)]


def test_the_next_deliverable_is_written_when_the_first_cannot_be() -> None:
    reply, _ = run(PARAGRAPH, POINTS, deliverables=(f"{OUT}a.pdf", NOTE))
    assert called(reply)[1]["path"] == NOTE


def test_no_words_give_no_empty_file() -> None:
    reply, _ = run("", "", deliverables=(NOTE,))
    assert reply.call is None
    assert "notes.md" in reply.text


def test_a_small_model_is_offered_what_the_request_means() -> None:
    path = "/mnt/user-data/uploads/a.txt"
    reply, session = run(
        json.dumps({"tool": "read_file", "args": {"path": path}}),
        history=[HumanMessage(f"Read {path} please.")],
    )
    assert called(reply) == ("read_file", {"path": path})
    grammar = session.asked[0]["grammar"]
    assert path in grammar
    assert "bash" not in grammar
    assert "ask_clarification" not in grammar


def test_a_small_model_answers_a_plain_question() -> None:
    reply, session = run("Paris.", history=[HumanMessage("What is the capital of France?")])
    assert reply.text == "Paris."
    assert session.asked[0]["grammar"] is None
    assert session.said == [("text", "Paris.")]


def test_a_larger_model_chooses_among_all_tools() -> None:
    reply, session = run(
        '{"answer":""}', "Paris.", history=[HumanMessage("Capital of France?")], limits=LARGE
    )
    assert reply.text == "Paris."
    assert all(one.name in session.asked[0]["grammar"] for one in TOOLS)
    assert [kind for kind, _ in session.said] == ["call", "text"]


@pytest.mark.parametrize("cut", ['{"tool":"bash","args":{"comm', ""])
def test_a_cut_action_is_tried_again_and_then_answered(cut: str) -> None:
    reply, session = run(cut, cut, "In words.", history=[HumanMessage("Run ls.")], limits=LARGE)
    assert reply.text == "In words."
    assert session.asked[1]["seed"] == LARGE.seed + 1


def test_the_same_call_is_not_made_twice() -> None:
    history = [HumanMessage("Run ls."), *step("bash", {"command": "ls"}, "a.txt")]
    again = json.dumps({"tool": "bash", "args": {"command": "ls"}})
    reply, _ = run(again, "There is a.txt.", history=history, limits=LARGE)
    assert reply.text == "There is a.txt."


def test_after_many_steps_it_answers() -> None:
    history: list[BaseMessage] = [HumanMessage("Run something.")]
    for number in range(MAX_STEPS):
        history += step("bash", {"command": f"echo {number}"}, "x" * number)
    reply, session = run("Done.", history=history, limits=LARGE)
    assert reply.text == "Done."
    assert len(session.asked) == 1


def test_a_choice_of_the_caller_binds() -> None:
    wanted = json.dumps({"tool": "bash", "args": {"command": "ls"}})
    reply, session = run(wanted, choice="bash")
    assert called(reply)[0] == "bash"
    assert "read_file" not in session.asked[0]["grammar"]
    assert "answer" not in session.asked[0]["grammar"]
    reply, _ = run("Words.", choice="none", limits=LARGE)
    assert reply.text == "Words."


def test_a_schema_that_the_grammar_refuses_ends_in_words() -> None:
    reply, _ = run(ModelRequestError("no sampler"), "Words.", limits=LARGE)
    assert reply.text == "Words."


def test_a_blank_answer_is_tried_once_more() -> None:
    reply, session = run(" \n", "Words.", tools=())
    assert reply.text == "Words."
    reply, session = run("", "", tools=())
    assert reply.text == ""
    assert session.texts == []


def test_what_does_not_fit_is_shortened_and_sent_again() -> None:
    long: list[BaseMessage] = [HumanMessage("words " * 5_000)]
    full = ContextOverflowError("too long")
    reply, session = run(full, full, "Words.", history=long, tools=())
    assert reply.text == "Words."
    sizes = [sum(len(line["content"]) for line in asked["messages"]) for asked in session.asked]
    assert sizes[0] > sizes[2]
    with pytest.raises(ContextOverflowError):
        run(full, full, full, history=long, tools=())


REMIND = "\n\n<system-reminder>\nToday is Monday, 2026-11-30.\n</system-reminder>"


def test_a_small_agent_talks_without_the_texts_of_the_harness() -> None:
    framed = f"<uploads>\na.md\n</uploads>\n\nHow much is 6 times 7?{REMIND}"
    earlier: list[BaseMessage] = [HumanMessage(f"Hello{REMIND}"), AIMessage("Hi.")]
    _, session = run("42", history=[*earlier, HumanMessage(framed)])
    assert session.asked[0]["messages"] == [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi."},
        {
            "role": "user",
            "content": "<uploads>\na.md\n</uploads>\n\nHow much is 6 times 7?\n\nAnswer briefly.",
        },
    ]


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        (f"What day is it?{REMIND}", {}),
        ("Hello", {"tools": ()}),
        ("Hello", {"limits": LARGE, "choice": "none"}),
    ],
)
def test_who_needs_the_system_text_or_the_day_keeps_them(
    text: str, settings: dict[str, Any]
) -> None:
    _, session = run("Good.", history=[HumanMessage(text)], **settings)
    lines = session.asked[0]["messages"]
    assert lines[0]["content"].startswith("You are DeerFlow.")
    assert lines[-1]["content"] == text
