"""How a question ends without acceptance: attempts, oscillation, no validator."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fakes.loops import ALONE, PLAIN, UNBLIND, solved
from fakes.roles import ScriptedRoles, answered, judged, no_budget, no_model

# ---- exhausted ----


async def test_exhausted_after_max_attempts() -> None:
    roles = ScriptedRoles(
        {
            "resolve": [answered("A"), answered("C"), answered("D")],
            "blind": [answered("B")],
            "review": [judged(False, "B", "no")] * 3,
        }
    )
    status = await solved(roles)
    assert (status.state, status.attempts) == ("exhausted", 3)
    assert roles.steps == ["resolve", "blind", "review", "resolve", "review", "resolve", "review"]
    assert status.final_response == "A"
    assert status.raw["ladder"][-1] == {"rung": "abstain", "attempt": 3, "outcome": "exhausted"}
    assert roles.left == {}


async def test_one_attempt_is_reviewed_too() -> None:
    roles = ScriptedRoles(
        {"resolve": [answered("A")], "blind": [answered("B")], "review": [judged(False, "B")]}
    )
    assert (await solved(roles, replace(PLAIN, max_attempts=1))).state == "exhausted"


async def test_the_best_supported_answer_is_kept_not_the_last() -> None:
    roles = ScriptedRoles(
        {
            "resolve": [answered("A", "first"), answered("C"), answered("A", "again")],
            "review": [judged(False, "D"), judged(False, "B"), judged(False, "C")],
        }
    )
    status = await solved(roles, UNBLIND)
    assert (status.state, status.attempts) == ("exhausted", 3)
    assert status.final_response == "C"  # the validator came to it, whoever gave it last


async def test_more_votes_are_better_support() -> None:
    roles = ScriptedRoles(
        {
            "resolve": [answered("C"), answered("A"), answered("A")],
            "review": [judged(False, "B"), judged(False, "D"), judged(False, "B")],
        }
    )
    status = await solved(roles, UNBLIND)
    assert (status.final_response, status.state) == ("A", "exhausted")
    assert status.raw["confidence"]["agreement"] == round(2 / 5, 4)


async def test_feedback_of_a_silent_validator() -> None:
    roles = ScriptedRoles(
        {
            "resolve": [answered("A"), answered("B")],
            "blind": [answered("B")],
            "review": [judged(True, "B")],
        }
    )
    await solved(roles)
    assert "came to another result" in roles.prompts("resolve")[1]


# ---- oscillation ----


async def test_the_same_pair_twice_stops_early() -> None:
    roles = ScriptedRoles(
        {
            "resolve": [answered("A"), answered("A")],
            "blind": [answered("B")],
            "review": [judged(False, "B", "no")],
        }
    )
    status = await solved(roles)
    assert (status.state, status.attempts) == ("exhausted", 2)
    assert roles.steps == ["resolve", "blind", "review", "resolve"]
    assert status.raw["history"][-1]["step"] == "oscillation"


async def test_an_earlier_pair_stops_too() -> None:
    roles = ScriptedRoles(
        {
            "resolve": [answered("A"), answered("C"), answered("A")],
            "blind": [answered("B")],
            "review": [judged(False, "B"), judged(False, "B")],
        }
    )
    status = await solved(roles, replace(PLAIN, max_attempts=9))
    assert (status.attempts, roles.left) == (3, {})


async def test_without_a_blind_answer_the_pair_is_known_after_the_review() -> None:
    roles = ScriptedRoles(
        {
            "resolve": [answered("A"), answered("A")],
            "review": [judged(False, "B", "no"), judged(False, "B", "no")],
        }
    )
    status = await solved(roles, UNBLIND)
    assert (status.attempts, status.state, roles.left) == (2, "exhausted", {})


async def test_another_answer_of_the_validator_is_another_pair() -> None:
    roles = ScriptedRoles(
        {
            "resolve": [answered("A")] * 3,
            "review": [judged(False, "B"), judged(False, "C"), judged(False, "D")],
        }
    )
    assert (await solved(roles, UNBLIND)).attempts == 3


# ---- without a validator ----


async def test_unvalidated_is_not_accepted() -> None:
    roles = ScriptedRoles({"resolve": [answered("B", confidence=1)]})
    status = await solved(roles, ALONE)
    assert (status.state, status.final_response, status.attempts) == ("unvalidated", "B", 1)
    assert status.validator_answer is None
    assert list(status.raw["tokens"]) == ["resolver"]


async def test_self_check_replaces_the_answer() -> None:
    roles = ScriptedRoles(
        {"resolve": [answered("A", "draft")], "self_check": [answered("B", "better")]}
    )
    status = await solved(roles, replace(ALONE, self_check=True))
    assert (status.state, status.final_response, status.attempts) == ("unvalidated", "B", 1)
    assert "draft" in roles.prompts("self_check")[0]
    assert all(ask.role == "resolver" for ask in roles.asks)


@pytest.mark.parametrize(
    ("error", "state"), [(no_model(), "resolver_error"), (no_budget(), "budget_exceeded")]
)
async def test_a_failed_self_check_keeps_the_answer(error: Exception, state: str) -> None:
    roles = ScriptedRoles({"resolve": [answered("A")], "self_check": [error]})
    status = await solved(roles, replace(ALONE, self_check=True))
    assert (status.state, status.final_response, status.attempts) == (state, "A", 1)


async def test_samples_the_majority_counts() -> None:
    texts = ["A", "B", "B", "C", "B", "A"]
    roles = ScriptedRoles({"sample": [answered(text, f"r{text}") for text in texts]})
    status = await solved(roles, replace(ALONE, samples=6))
    assert (status.state, status.final_response, status.attempts) == ("unvalidated", "B", 6)
    assert (status.reasoning, status.raw["decided_by"]) == ("rB", "samples")
    assert status.raw["confidence"]["agreement"] == 0.5
    assert [ask.number for ask in roles.asks] == [1, 2, 3, 4, 5, 6]
    assert len({ask.prompt for ask in roles.asks}) == 1  # none knows of another


async def test_samples_with_a_tie_take_the_earliest() -> None:
    roles = ScriptedRoles({"sample": [answered(text) for text in "ABBA"]})
    assert (await solved(roles, replace(ALONE, samples=4))).final_response == "A"


async def test_samples_go_on_with_what_there_is() -> None:
    roles = ScriptedRoles({"sample": [answered("A"), answered("B"), answered("B"), no_model()]})
    status = await solved(roles, replace(ALONE, samples=6))
    assert (status.state, status.final_response, status.attempts) == ("unvalidated", "B", 3)


async def test_no_sample_at_all_is_a_resolver_error() -> None:
    roles = ScriptedRoles({"sample": [no_model()]})
    status = await solved(roles, replace(ALONE, samples=6))
    assert (status.state, status.final_response) == ("resolver_error", "")
