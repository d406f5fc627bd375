"""Unreadable replies, faults and an empty budget at every step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deerflow.verify.policy import Policy
from fakes.loops import PLAIN, UNBLIND, solved
from fakes.roles import ScriptedRoles, answered, chosen, judged, no_budget, no_model

# ---- re-asks ----


async def test_an_unreadable_verdict_is_asked_for_once_more() -> None:
    roles = ScriptedRoles(
        {
            "resolve": [answered("B")],
            "review": ["I accept the answer"],
            "reask": [judged(True, "B")],
        }
    )
    status = await solved(roles, UNBLIND)
    assert status.state == "accepted"
    reask = roles.asks[-1]
    assert (reask.role, reask.step, reask.attempt, reask.number) == ("validator", "reask", 1, 1)
    assert "I accept the answer" in reask.prompt
    assert status.raw["history"][1]["unreadable"]


async def test_twice_unreadable_is_a_validator_error_that_keeps_the_answer() -> None:
    roles = ScriptedRoles(
        {
            "resolve": [answered("A", "mine")],
            "blind": [answered("B")],
            "review": ["hm"],
            "reask": ["hm"],
        }
    )
    status = await solved(roles, Policy(code_check=False))  # no ladder either
    assert (status.state, status.final_response) == ("validator_error", "A")
    assert (status.reasoning, status.attempts, status.validator_answer) == ("mine", 1, "B")
    assert status.raw["error"]["code"] == "unreadable_reply"
    assert roles.steps == ["resolve", "blind", "review", "reask"]


async def test_an_empty_answer_is_asked_for_once_more() -> None:
    roles = ScriptedRoles({"resolve": [""], "reask": [answered("B")], "blind": [answered("B")]})
    status = await solved(roles)
    assert (status.state, status.attempts) == ("accepted", 1)


async def test_twice_no_answer_is_a_resolver_error() -> None:
    roles = ScriptedRoles({"resolve": [""], "reask": [" "]})
    status = await solved(roles)
    assert (status.state, status.final_response, status.attempts) == ("resolver_error", "", 0)
    assert status.raw["error"]["code"] == "unreadable_reply"


async def test_an_empty_blind_answer_is_a_validator_error() -> None:
    roles = ScriptedRoles({"resolve": [answered("B")], "blind": [""], "reask": [""]})
    status = await solved(roles)
    assert (status.state, status.final_response) == ("validator_error", "B")
    assert status.validator_answer is None


async def test_no_two_asks_have_the_same_place() -> None:
    roles = ScriptedRoles(
        {
            "resolve": ["", answered("C")],
            "blind": [""],
            "review": ["?", "?"],
            "reask": [
                answered("A"),
                answered("B"),
                judged(False, "B", "no"),
                judged(False, "B", "no"),
            ],
        }
    )
    await solved(roles, replace(PLAIN, max_attempts=2))
    places = [(ask.role, ask.step, ask.attempt, ask.number) for ask in roles.asks]
    assert len(set(places)) == len(places)


# ---- faults and budget at every step ----

SCRIPT: dict[Any, list[str]] = {
    "resolve": [answered("A", "first"), answered("C"), answered("D")],
    "blind": [answered("B")],
    "review": ["unreadable", judged(False, "B", "no"), judged(False, "B", "no")],
    "reask": [judged(False, "B", "no")],
    "adjudicate": [chosen(0)],
    "sample": [answered("A"), answered("C"), answered("D")],
}
LONG = Policy(code_check=False, samples=3)
STEPS = [
    "resolve",
    "blind",
    "review",
    "reask",
    "resolve",
    "review",
    "resolve",
    "review",
    "adjudicate",
    "sample",
    "sample",
    "sample",
]


def states(step: str) -> str:
    if step == "resolve":
        return "resolver_error"
    return "exhausted" if step in ("adjudicate", "sample") else "validator_error"


async def test_the_long_way() -> None:
    roles = ScriptedRoles(SCRIPT)
    status = await solved(roles, LONG)
    assert roles.steps == STEPS
    assert (status.state, status.final_response, status.attempts) == ("exhausted", "A", 3)
    assert len(roles.asks) <= LONG.most_calls + 1  # one re-ask


@pytest.mark.parametrize("at", range(1, len(STEPS) + 1))
async def test_a_model_error_at_any_step(at: int) -> None:
    roles = ScriptedRoles(SCRIPT, broken=no_model(), at=at)
    status = await solved(roles, LONG)
    step = STEPS[at - 1]
    assert status.state == states(step)
    assert status.final_response == ("" if at == 1 else "A")
    assert status.attempts == STEPS[: at - 1].count("resolve")
    if step not in ("adjudicate", "sample"):
        assert roles.steps == STEPS[:at]
        assert status.raw["error"] == {"code": "model_error", "message": "The endpoint is gone."}


@pytest.mark.parametrize("at", range(1, len(STEPS) + 1))
async def test_an_empty_budget_at_any_step(at: int) -> None:
    roles = ScriptedRoles(SCRIPT, broken=no_budget(), at=at)
    status = await solved(roles, LONG)
    assert status.state == "budget_exceeded"
    assert roles.steps == STEPS[:at]
    assert status.final_response == ("" if at == 1 else "A")
    assert status.raw["error"]["code"] == "limit_reached"


async def test_other_errors_are_not_swallowed() -> None:
    roles = ScriptedRoles({"resolve": [ZeroDivisionError()]})
    with pytest.raises(ZeroDivisionError):
        await solved(roles)
