"""What stays of a transcript that does not fit."""

from __future__ import annotations

import json

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from deerflow.models.window import DROPPED, fitted, rendered, tokens

TASK = "Now summarise the second file."


def call(number: int, result: str) -> list[BaseMessage]:
    id_ = f"call_{number}"
    wanted = AIMessage(
        content="",
        tool_calls=[{"name": "read_file", "args": {"path": f"f{number}"}, "id": id_}],
    )
    return [wanted, ToolMessage(result, tool_call_id=id_, name="read_file")]


def history(turns: int, *, size: int = 400) -> list[BaseMessage]:
    messages: list[BaseMessage] = [SystemMessage("You are DeerFlow.")]
    for turn in range(turns):
        messages += [HumanMessage(f"Request {turn}"), *call(turn, f"R{turn} " + "x" * size)]
        messages.append(AIMessage(f"Answer {turn}"))
    return [*messages, HumanMessage(TASK), *call(99, "R99 " + "y" * size)]


def test_short_history_is_complete_and_alternates() -> None:
    lines = rendered(history(2), extra="Tools: …")
    assert lines[0] == {"role": "system", "content": "You are DeerFlow.\n\nTools: …"}
    roles = [line["role"] for line in lines[1:]]
    assert all(one != other for one, other in zip(roles, roles[1:], strict=False))
    assert json.loads(lines[2]["content"]) == {"tool": "read_file", "args": {"path": "f0"}}
    assert lines == fitted(history(2), 10_000, extra="Tools: …")


@pytest.mark.parametrize("budget", [2_000, 1_000, 500, 300])
def test_what_does_not_fit_goes_oldest_first(budget: int) -> None:
    lines = fitted(history(20), budget)
    text = "\n".join(line["content"] for line in lines)
    assert tokens(lines) <= budget
    assert lines[0]["content"] == "You are DeerFlow."
    assert TASK in text
    assert "R99" in text
    assert DROPPED in text
    kept = [turn for turn in range(20) if f"Request {turn}\n" in f"{text}\n"]
    assert kept == list(range(20 - len(kept), 20))


@pytest.mark.parametrize("budget", [1_500, 900, 600, 400])
def test_a_call_and_its_result_go_together(budget: int) -> None:
    text = "\n".join(line["content"] for line in fitted(history(20), budget))
    for turn in range(20):
        asked = f'"path": "f{turn}"' in text
        assert asked == (f"R{turn} x" in text)


def test_old_steps_of_the_current_request_go_before_the_newest() -> None:
    messages: list[BaseMessage] = [SystemMessage("System."), HumanMessage(TASK)]
    for number in range(30):
        messages += call(number, f"R{number} " + "z" * 300)
    text = "\n".join(line["content"] for line in fitted(messages, 800))
    assert TASK in text
    assert "R29 z" in text
    assert "R0 z" not in text


def test_a_huge_task_is_cut_in_the_middle() -> None:
    task = "START " + "words and words " * 5_000 + " END"
    lines = fitted([SystemMessage("System."), HumanMessage(task)], 1_000)
    assert tokens(lines) <= 1_000
    assert lines[1]["content"].startswith("START")
    assert lines[1]["content"].endswith("END")


def test_a_huge_result_keeps_head_and_tail() -> None:
    messages = [SystemMessage("S."), HumanMessage(TASK), *call(1, "HEAD " + "m" * 90_000 + " TAIL")]
    lines = fitted(messages, 1_500)
    assert "HEAD" in lines[-1]["content"]
    assert lines[-1]["content"].endswith("TAIL")
    assert lines[1]["content"] == TASK
