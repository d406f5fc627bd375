"""Code has a say; the key is seen where a policy says so."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from deerflow.errors import UsageError
from deerflow.verify import prompts
from deerflow.verify.loop import Loop
from deerflow.verify.messages import QuestionStatus
from deerflow.verify.policy import Policy
from fakes.loops import LETTER, PLAIN, TEXT, UNBLIND, solved
from fakes.roles import ScriptedRoles, TableChecker, answered, chosen, judged

# ---- code ----

CODED = replace(PLAIN, code_check=True)


async def test_code_that_verifies_supports_without_a_review() -> None:
    roles = ScriptedRoles({"resolve": [answered("12")], "blind": [answered("13")]})
    status = await solved(roles, CODED, TEXT, TableChecker({"12": "verified"}))
    assert (status.state, status.raw["decided_by"]) == ("accepted", "code_check")
    assert status.raw["checks"] == [
        {
            "of": "resolver",
            "attempt": 1,
            "response": "12",
            "result": "verified",
            "kind": "table",
            "detail": "code says verified",
        }
    ]
    assert status.latency_ms == 14 + 250


async def test_code_that_verifies_the_validators_answer_settles_it() -> None:
    roles = ScriptedRoles({"resolve": [answered("13")], "blind": [answered("12", "so")]})
    checker = TableChecker({"12": "verified", "13": "refuted"})
    status = await solved(roles, CODED, TEXT, checker)
    assert (status.state, status.final_response) == ("accepted", "12")
    assert status.reasoning == "so"
    assert status.raw["ladder"] == [{"rung": "code_check", "attempt": 1, "outcome": "refuted"}]


async def test_refuted_is_never_accepted_though_both_agree() -> None:
    roles = ScriptedRoles(
        {"resolve": [answered("13"), answered("12")], "blind": [answered("13")], "review": []}
    )
    checker = TableChecker({"12": "verified", "13": "refuted"})
    status = await solved(roles, CODED, TEXT, checker)
    assert (status.state, status.final_response, status.attempts) == ("accepted", "12", 2)
    assert status.raw["decided_by"] == "code_check"
    assert "refutes the result 13. code says refuted" in roles.prompts("resolve")[1]


async def test_both_stay_with_what_code_refutes() -> None:
    roles = ScriptedRoles({"resolve": [answered("13")] * 2, "blind": [answered("13")]})
    status = await solved(roles, Policy(), TEXT, TableChecker({"13": "refuted"}))
    assert (status.state, status.final_response, status.attempts) == ("exhausted", "13", 2)
    assert [rung["rung"] for rung in status.raw["ladder"]] == [
        "code_check",
        "resolve",
        "code_check",
        "adjudicator",
        "abstain",
    ]


async def test_refuted_is_never_accepted_by_review() -> None:
    roles = ScriptedRoles({"resolve": [answered("13")], "review": [judged(True, "13")]})
    policy = replace(CODED, blind=False, max_attempts=1)
    status = await solved(roles, policy, TEXT, TableChecker({"13": "refuted"}))
    assert status.state == "exhausted"


@pytest.mark.parametrize("result", ["check_failed", "not_applicable"])
async def test_a_check_without_a_result_neither_accepts_nor_refuses(result: Any) -> None:
    roles = ScriptedRoles(
        {"resolve": [answered("13")], "blind": [answered("12")], "review": [judged(False, "12")]}
    )
    policy = replace(CODED, max_attempts=1)
    assert (await solved(roles, policy, TEXT, TableChecker({"13": result}))).state == "exhausted"
    roles = ScriptedRoles({"resolve": [answered("13")], "blind": [answered("13")]})
    assert (await solved(roles, policy, TEXT, TableChecker({"13": result}))).state == "accepted"


async def test_an_answer_is_checked_once() -> None:
    roles = ScriptedRoles(
        {
            "resolve": [answered("13"), answered("13")],
            "blind": [answered("12")],
            "review": [judged(False, "12")],
        }
    )
    checker = TableChecker({"13": "check_failed", "12": "check_failed"})
    await solved(roles, CODED, TEXT, checker)
    assert checker.checked == ["13", "12"]


async def test_a_refuted_answer_is_not_the_best_supported() -> None:
    roles = ScriptedRoles(
        {
            "resolve": [answered("13"), answered("14"), answered("13")],
            "review": [judged(False, "15"), judged(False, "16"), judged(False, "17")],
        }
    )
    policy = replace(CODED, blind=False)
    status = await solved(roles, policy, TEXT, TableChecker({"13": "refuted"}))
    assert (status.state, status.final_response) == ("exhausted", "14")


async def test_code_is_not_asked_when_the_policy_leaves_it_out() -> None:
    checker = TableChecker({"B": "refuted"})
    roles = ScriptedRoles({"resolve": [answered("B")], "blind": [answered("B")]})
    assert (await solved(roles, PLAIN, LETTER, checker)).state == "accepted"
    assert checker.checked == []


# ---- the key ----

KEY, RUBRIC = "KEY-SENTINEL-B", "FEEDBACK-SENTINEL"


async def prompts_under(policy: Policy) -> tuple[list[str], list[str], QuestionStatus]:
    """Prompts of reviews, and of all other asks with their system texts."""
    roles = ScriptedRoles(
        {
            "resolve": [answered("A"), answered("C"), answered("D")],
            "blind": [answered("B")],
            "review": [judged(False, KEY, f"{RUBRIC}: it is {KEY}")] * 3,
            "adjudicate": [chosen(0)],
            "sample": [answered("A")] * 3,
        }
    )
    status = await solved(roles, policy, reference=lambda id: KEY if id == LETTER.id else "")
    reviews = roles.prompts("review")
    others = [f"{a.system}\n{a.prompt}" for a in roles.asks if a.step != "review"]
    return reviews, others, status


async def test_no_prompt_holds_the_key_unless_the_policy_says_so() -> None:
    reviews, others, _ = await prompts_under(replace(PLAIN, adjudicate=True, samples=3))
    assert reviews and not any("# Reference" in text for text in reviews)
    assert not any("# Reference" in text for text in others)


async def test_content_free_the_validator_sees_the_key_and_nobody_hears_of_it() -> None:
    policy = replace(UNBLIND, reference="content_free")
    reviews, others, status = await prompts_under(policy)
    assert len(reviews) == 3 and all(f"# Reference answer\n\n{KEY}" in text for text in reviews)
    assert not any(KEY in text or RUBRIC in text for text in others)
    retries = [text for text in others if "reviewer" in text]
    assert len(retries) == 2 and all(prompts.CONTENT_FREE in text for text in retries)
    assert status.final_response == "A"  # not what the validator had from the key


async def test_free_the_feedback_reaches_the_resolver() -> None:
    reviews, others, status = await prompts_under(replace(UNBLIND, reference="free"))
    assert all(KEY in text for text in reviews)
    assert sum(RUBRIC in text for text in others) == 2
    assert status.final_response == "A"


async def test_with_the_key_nobody_adjudicates() -> None:
    policy = replace(UNBLIND, reference="free", adjudicate=True)
    _, others, status = await prompts_under(policy)
    assert not any("Two answers" in text for text in others)
    assert KEY not in status.final_response


async def test_a_policy_that_shows_the_key_needs_one() -> None:
    with pytest.raises(UsageError, match="no key"):
        Loop(ScriptedRoles({}), Policy(reference="free"), shuffle=Random(0))
