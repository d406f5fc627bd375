"""Goals as values: their bounds, the command, verdicts, and what counts as progress."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from deerflow.errors import UsageError
from deerflow.middlewares.progress import MARK
from deerflow.runtime.goals import (
    LONGEST,
    WARNING,
    Command,
    SessionGoal,
    brought_new,
    carried_out,
    closing_line,
    command_of,
    goal_of,
    read_verdict,
)


@pytest.mark.parametrize(
    ("text", "most"), [("", 8), (" \n", 8), ("x" * (LONGEST + 1), 8), ("x", 0), ("x", 9)]
)
def test_a_goal_out_of_bounds_is_refused(text: str, most: int) -> None:
    with pytest.raises(UsageError):
        SessionGoal(text, most)


def test_words_and_goals_are_both_taken() -> None:
    assert goal_of(None) is None
    assert goal_of("ship it") == SessionGoal("ship it")
    assert goal_of(SessionGoal("a", 2)) == SessionGoal("a", 2)
    with pytest.raises(UsageError):
        goal_of("")


@pytest.mark.parametrize(
    ("task", "command"),
    [
        ("/goal all tests pass", Command("all tests pass")),
        ("  /GOAL\nall tests\npass \n", Command("all tests\npass")),
        ("/goal clear", Command(clear=True)),
        ("/goal", Command()),
        ("/goals are fine", None),
        ("what does /goal do?", None),
        ("", None),
    ],
)
def test_only_a_request_that_is_the_command_is_one(task: str, command: Command | None) -> None:
    assert command_of(task) == command


def test_the_command_sets_shows_and_clears() -> None:
    goal, text = carried_out(Command("all tests pass"), None, "r1")
    assert goal is not None
    assert (goal["status"], goal["continuation_count"], goal["run_id"]) == ("active", 0, "r1")
    assert "all tests pass" in text
    assert carried_out(Command(), goal, "r2") == (goal, closing_line(goal))
    cleared, text = carried_out(Command(clear=True), goal, "r2")
    assert cleared is None
    assert "all tests pass" in text
    assert "no goal" in carried_out(Command(clear=True), None, "r2")[1]


def verdict(**fields: Any) -> str:
    return json.dumps(fields)


@pytest.mark.parametrize(
    "text",
    [
        "", "done", "{", "[]", '["done"]', "{}", "null", "{" * 100_000,
        verdict(verdict="DONE!", reason="x"), verdict(verdict="done"),
        verdict(verdict="done", reason=3), verdict(verdict=["done"], reason="x"),
        verdict(verdict="continue", reason="x", next=["y"]),
        '{"verdict": "done", "reason": "x"} {"verdict": "continue", "reason": "y"}',
    ],
)  # fmt: skip
def test_what_is_no_verdict_is_never_done(text: str) -> None:
    assert read_verdict(text) is None


def test_a_verdict_may_stand_in_a_fence() -> None:
    found = read_verdict('```json\n{"verdict": "continue", "reason": "r", "next": "n"}\n```')
    assert found is not None
    assert (found.kind, found.reason, found.next) == ("continue", "r", "n")
    whole = read_verdict(verdict(verdict="done", reason="r", next=None))
    assert whole is not None and whole.kind == "done"


def found(text: str, name: str = "bash", **fields: Any) -> ToolMessage:
    return ToolMessage(text, name=name, tool_call_id="c", **fields)


@pytest.mark.parametrize(
    ("after", "new"),
    [
        ([AIMessage("Not yet.")], False),
        ([AIMessage("not  YET.")], False),
        ([AIMessage("Nearly.")], True),
        ([found("1 failed"), AIMessage("Not yet.")], False),
        ([found("2 failed"), AIMessage("Not yet.")], True),
        ([found("1 failed", "python"), AIMessage("Not yet.")], True),
        ([found("broken", status="error"), AIMessage("Not yet.")], False),
        ([], False),
    ],
)
def test_progress_is_a_new_result_or_another_answer(after: list[Any], new: bool) -> None:
    before = [found("1 failed"), AIMessage("Not yet.")]
    assert brought_new(before, after, ({}, {})) is new


def test_a_warning_of_the_loop_guard_is_nothing_new() -> None:
    assert WARNING == MARK
    warned = [found(f"1 failed{MARK}call 3 of 'bash'")]
    assert not brought_new([found("1 failed")], warned, ({}, {}))


def test_progress_is_also_a_file() -> None:
    said = [AIMessage("Not yet.")]
    assert brought_new(said, said, ({}, {"a.md": 3}))
    assert brought_new(said, said, ({"a.md": 3}, {"a.md": 4}))
    assert not brought_new(said, said, ({"a.md": 3}, {"a.md": 3}))


def test_the_line_for_people_is_one_line() -> None:
    goal: Any = {**SessionGoal("x\n" * 200).begun("r"), "status": "blocked", "reason": "no\nkey"}
    line = closing_line(goal)
    assert line.startswith("Goal blocked (0 of 8 continuations): x x")
    assert line.endswith("…. no key")
    assert "\n" not in line


def test_much_white_space_costs_no_time() -> None:
    # a backtracking pattern needs hours for it
    assert command_of("/goal a" + " " * 2_000_000) == Command("a")
    with pytest.raises(UsageError, match="2,000,002 characters"):
        command_of("/goal a" + " " * 2_000_000 + "b")


@pytest.mark.parametrize("sign", ["\0", "\ud800"])
def test_signs_that_are_no_text_are_refused(sign: str) -> None:
    with pytest.raises(UsageError, match="no text"):
        SessionGoal(f"a{sign}b")
