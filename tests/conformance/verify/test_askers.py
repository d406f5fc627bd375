"""What every asker keeps to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deerflow.errors import LimitError, ModelError
from deerflow.subagents.roster import SubagentSpec
from deerflow.subagents.runner import ChildResult
from deerflow.verify.children import ChildAsker, Given
from deerflow.verify.inmemory import ScriptedRoles
from deerflow.verify.messages import Problem
from deerflow.verify.protocol import Ask, Asker
from fakes.roles import no_budget, no_model
from fakes.rows import run_context

ASK = Ask(Problem("q", "Which?"), "validator", "blind", 1, "The system text.", "The prompt.")
USAGE: dict[str, Any] = {"total": {"calls": 1, "input": 10, "output": 2}}
FULL = {"code": "limit_reached", "message": "Full."}
GONE = {"code": "model_unavailable", "message": "Gone."}


class Child:
    """An executor whose child ends with the next of these results."""

    def __init__(self, *results: ChildResult) -> None:
        self._results = list(results)

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
        return self._results.pop(0)


def children() -> ChildAsker:
    results = (
        ChildResult("completed", "B", usage=USAGE),
        ChildResult("failed", "", error=GONE),
        ChildResult("failed", "", error=FULL),
    )
    return ChildAsker(Child(*results), run_context(), name="v")


def scripted() -> ScriptedRoles:
    return ScriptedRoles({"blind": ["B", no_model(), no_budget()]})


MAKERS: dict[str, Callable[[], Asker]] = {
    "scripted": scripted,
    "children": children,
    "given": lambda: Given("12", scripted()),
}


@pytest.mark.parametrize("maker", list(MAKERS))
async def test_a_reply_with_its_cost_or_one_of_two_errors(maker: str) -> None:
    asker = MAKERS[maker]()
    reply = await asker.ask(ASK)
    assert (reply.text, reply.tokens.calls, reply.tokens.input) == ("B", 1, 10)
    assert reply.latency_ms >= 0
    with pytest.raises(ModelError):
        await asker.ask(ASK)
    with pytest.raises(LimitError):
        await asker.ask(ASK)
