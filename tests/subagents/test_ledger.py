"""The ledger: which tasks ask the same, what is kept, and how it is told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, ToolCall, ToolMessage

from deerflow.agent.calls import REFUSED
from deerflow.agent.state import TaskState, apply_update
from deerflow.subagents.ledger import (
    BRIEF,
    FILLER,
    KEPT_PROMPT,
    MOST,
    entered,
    full_result,
    known,
    same,
    twin,
)


def call(prompt: str, id: str = "new", kind: str = "general-purpose") -> ToolCall:
    args = {"description": "d", "prompt": prompt, "subagent_type": kind}
    return ToolCall(name="task", args=args, id=id, type="tool_call")


def entry(id: str, **fields: Any) -> TaskState:
    values: dict[str, Any] = {
        "task_id": id,
        "description": "d",
        "prompt": "",
        "subagent_type": "general-purpose",
        "status": "completed",
        "result": "found",
        "run_id": "r1",
    }
    return TaskState(**{**values, **fields})


def state_with(*entries: tuple[TaskState, str]) -> dict[str, Any]:
    state: dict[str, Any] = {"messages": []}
    for each, prompt in entries:
        state = apply_update(state, entered(state, each, prompt))
    return state


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Research tea, one page.", "research  Tea:\none page"),
        (
            "Research solid-state batteries; write one page.",
            "Please research the solid-state batteries again and write one page!",
        ),
        ("研究茶的历史。", "请研究一下茶的历史"),
        ("A report on tea", "the report on tea"),
        (
            "Collect prices of grain, corn, rice, wheat and oats in Europe today with sources",
            "Collect prices of grain, corn, rice, wheat and oats in Europe with sources",
        ),
    ],
)
def test_the_same_in_other_words(old: str, new: str) -> None:
    assert same(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Process sample_01 and write the table", "Process sample_02 and write the table"),
        ("Research vendor A in depth", "Research vendor B in depth"),
        ("Research vendor A in depth", "Research a vendor in depth"),
        ("Research IT vendors", "Research it vendors"),
        ("研究供应商甲的价格", "研究供应商乙的价格"),
        ("Translate from German to English", "Translate from English to German"),
        ("Summarise report.md in full detail", "Summarise report.md in full detail in German"),
        ("Summarise the history of tea in England", "Summarise the history of rum in England"),
        ("Read a.csv, do not write files", "Read a.csv, do write files"),
        ("Which rows have x > y", "Which rows have x < y"),
        ("Check /mnt/user-data/workspace/a.py", "Check /mnt/user-data/workspace/b.py"),
        ("Sum up 2025", "Sum up 2026"),
        ("Compare the sales of 2025 and 2026 by month, region, product and channel please",
         "Compare the sales of 2025 by month, region, product and channel please"),
        ("Look at tea", "Look at tea, rice, salt and corn"),
        ("tea", ""),
    ],
)  # fmt: skip
def test_what_differs_is_not_the_same(old: str, new: str) -> None:
    assert not same(old, new)


def test_long_prompts_are_compared_as_a_whole() -> None:
    long = "Read it all and write it up. " * (KEPT_PROMPT // 20)
    assert same(long, long.replace(" ", "\n"))
    assert not same(long, "Please " + long)


@given(st.text(max_size=60))
def test_a_prompt_is_the_same_as_itself(prompt: str) -> None:
    assert same(prompt, prompt)


@given(
    st.lists(st.sampled_from("grain corn rice wheat oats".split()), min_size=1, unique=True),
    st.from_regex(r"[b-z][a-z]{3,8}", fullmatch=True),
)
def test_a_new_word_is_never_the_same(words: list[str], new: str) -> None:
    text = " ".join(words)
    assert same(text, f"{text} {new}") == (new in FILLER)


def test_completed_ones_of_the_same_kind_are_known() -> None:
    state = state_with(
        (entry("a", status="failed"), "research tea"),
        (entry("b", subagent_type="bash"), "research tea"),
        (entry("c"), "research rice"),
    )
    assert known(state, call("research tea")) is None
    state = apply_update(state, entered(state, entry("d"), "research tea"))
    found = known(state, call("research tea"))
    assert found is not None and found["task_id"] == "d"
    assert known(state, call("research tea", kind="bash")) is not None
    assert known(state, call("research tea", id="d")) is None  # entered again after a pause
    assert known({}, call("research tea")) is None


def test_a_long_prompt_is_kept_as_a_digest_and_known_word_for_word_alone() -> None:
    long = "Look at row 7. " * 200
    state = state_with((entry("a"), long))
    assert len(state["delegations"]["a"]["prompt"]) < KEPT_PROMPT
    assert known(state, call(long.replace(" ", "\n"))) is not None
    assert known(state, call(long + "And row 8.")) is None


def test_the_earlier_call_of_a_turn_is_the_one_that_runs() -> None:
    calls = [call("x tea", "1"), call("x rice", "2"), call("x Tea.", "3"), call("x rice", "4")]
    turn = AIMessage("", tool_calls=calls, additional_kwargs={REFUSED: {"2": "no"}})
    assert twin(turn, calls[0]) is None
    found = twin(turn, calls[2])
    assert found is not None and found["id"] == "1"
    assert twin(turn, calls[3]) is None, "the first of the two was refused"


def test_the_whole_result_comes_from_the_transcript() -> None:
    long = "y" * 5 * BRIEF
    state = state_with((entry("a", result=long), "x"))
    kept = state["delegations"]["a"]
    assert len(kept["result"]) == BRIEF
    assert full_result([ToolMessage(long, tool_call_id="a")], kept) == long
    assert full_result([], kept) == kept["result"]


def test_the_oldest_entries_go() -> None:
    state = state_with(*((entry(str(n)), f"prompt {n}") for n in range(MOST + 5)))
    assert list(state["delegations"]) == [str(n) for n in range(5, MOST + 5)]
