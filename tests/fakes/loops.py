"""Problems, policies and one way through the loop on scripted roles."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from deerflow.verify.loop import Loop
from deerflow.verify.messages import Problem, QuestionStatus
from deerflow.verify.policy import Policy
from fakes.roles import ScriptedRoles, TableChecker

LETTER = Problem("q-1", "Which?", "letter", ("A. one", "B. two", "C. three", "D. four"), "math")
TEXT = Problem("q-2", "Solve 2x = 24.")

PLAIN = Policy(code_check=False, adjudicate=False)
UNBLIND = replace(PLAIN, blind=False)
ALONE = replace(PLAIN, validate=False, blind=False)


async def solved(
    roles: ScriptedRoles,
    policy: Policy = PLAIN,
    problem: Problem = LETTER,
    checker: TableChecker | None = None,
    **further: Any,
) -> QuestionStatus:
    loop = Loop(roles, policy, checker, shuffle=Random(1), **further)
    status = await loop.solve(problem)
    assert status.accepted == (status.state == "accepted") == status.raw["accepted"]
    assert status.raw["state"] == status.state
    assert status.raw["attempts"] == status.attempts
    assert status.raw["validator_answer"] == status.validator_answer
    assert status.question_id == problem.id
    calls = sum(tokens["calls"] for tokens in status.raw["tokens"].values())
    assert status.latency_ms >= 7 * calls
    return status
