"""Roles as children of a run: isolated, counted, told, and never asked twice after a kill."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.errors import GraphInterrupt

from deerflow.errors import LimitError, ModelError
from deerflow.subagents.roster import SubagentSpec
from deerflow.subagents.runner import ChildResult
from deerflow.verify.children import ChildAsker, Given, resolution
from deerflow.verify.messages import Problem, ResolverOutput
from deerflow.verify.protocol import Ask
from deerflow.verify.reading import read_resolution
from fakes.documented import check_payload
from fakes.roles import ScriptedRoles, answered
from fakes.rows import run_context

PROBLEM = Problem("q", "Which?")
USAGE: dict[str, Any] = {
    "total": {"calls": 1, "input": 100, "output": 10},
    "entries": [{"model": "scripted", "caller": "validator", "calls": 1, "input": 100}],
}


def ask(**changes: Any) -> Ask:
    values: dict[str, Any] = {
        "problem": PROBLEM,
        "role": "validator",
        "step": "blind",
        "attempt": 2,
        "system": "The system text.",
        "prompt": "The prompt.",
        "number": 3,
    }
    return Ask(**{**values, **changes})


class Child:
    """Runs no child; notes what was asked and gives what it is told to."""

    def __init__(self, result: ChildResult | Exception) -> None:
        self._result = result
        self.calls: list[tuple[SubagentSpec, str, str]] = []

    async def run(
        self,
        spec: SubagentSpec,
        prompt: str,
        run: Any,
        *,
        name: str,
        max_turns: int = 0,
        bounded: bool = True,
    ) -> ChildResult:
        self.calls.append((spec, prompt, name))
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


async def test_a_role_sees_its_own_prompt_and_the_calculator() -> None:
    child = Child(ChildResult("completed", "B", usage=USAGE))
    run = run_context()
    asker = ChildAsker(child, run, name="verify-c1", models={"validator": "other"})
    reply = await asker.ask(ask())
    ((spec, prompt, name),) = child.calls
    assert (reply.text, reply.tokens.input, reply.tokens.calls) == ("B", 100, 1)
    assert (spec.name, spec.prompt, spec.model) == ("validator", "The system text.", "other")
    assert (spec.tools, spec.skills) == (("calculator",), ())
    assert (prompt, name) == ("The prompt.", "verify-c1.validator-blind-2-3")
    assert asker.meter.total.input == 100


async def test_start_and_end_are_told_once() -> None:
    run = run_context()
    asker = ChildAsker(Child(ChildResult("completed", "B")), run, name="v", tool_call_id="call")
    await asker.ask(ask())
    await asker.ask(ask())  # as after a kill
    events = await run.storage.events.read(run.thread_key)
    assert [event.type for event in events] == ["task_started", "task_completed"]
    for event in events:
        check_payload(event.type, event.payload)
        assert event.payload["task_id"] == "v.validator-blind-2-3"
    assert events[0].payload["tool_call_id"] == "call"


@pytest.mark.parametrize(
    ("result", "error"),
    [
        (ChildResult("failed", "", error={"code": "model_auth", "message": "No key."}), ModelError),
        (ChildResult("timed_out", "B", "timeout_seconds", error={"message": "Late."}), ModelError),
        (ChildResult("completed", "B", "max_turns"), ModelError),
        (ChildResult("completed", "B", "token_budget.run"), LimitError),
        (ChildResult("completed", "B", "subagents.token_budget.total"), LimitError),
        (
            ChildResult("failed", "", error={"code": "limit_reached", "message": "Full."}),
            LimitError,
        ),
        (GraphInterrupt(()), ModelError),
    ],
)
async def test_what_a_stopped_child_had_is_no_answer(
    result: ChildResult | Exception, error: type[Exception]
) -> None:
    asker = ChildAsker(Child(result), run_context(), name="v")
    with pytest.raises(error):
        await asker.ask(ask())


async def test_what_is_given_is_the_resolvers_answer() -> None:
    roles = ScriptedRoles({"blind": [answered("B")]})
    given = Given('12, "quoted"\n{"response": "13"}', roles)
    reply = await given.ask(ask(role="resolver", step="resolve"))
    assert read_resolution(reply.text).response == '12, "quoted"\n{"response": "13"}'
    assert (await given.ask(ask())).text == answered("B")
    assert roles.steps == ["blind"]


def test_a_resolution_is_read_as_it_was_given() -> None:
    text = "```json\n{}\n```"
    assert read_resolution(resolution(text, "{}")) == ResolverOutput(text, final="{}")
