"""The upper rungs: their order, what each may settle, and that nobody's name is shown."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from deerflow.verify.loop import Loop
from deerflow.verify.messages import CheckOutcome, Problem, QuestionStatus
from deerflow.verify.policy import Policy
from fakes.roles import ScriptedRoles, TableChecker, answered, chosen, judged, no_model

TEXT = Problem("q-2", "Solve 2x = 24.")
ONE = Policy(max_attempts=1, samples=3)


async def climbed(
    policy: Policy = ONE,
    *,
    seed: int = 1,
    checker: Any = None,
    problem: Problem = TEXT,
    **script: list[Any],
) -> tuple[QuestionStatus, ScriptedRoles]:
    """The resolver says 11, the blind validator 12, and no review brings them together."""
    lines: dict[Any, list[Any]] = {
        "resolve": [answered("11", "R")],
        "blind": [answered("12", "V")],
        "review": [judged(False, "12", "no")],
    }
    roles = ScriptedRoles({**lines, **script})  # pyright: ignore[reportArgumentType]
    loop = Loop(roles, policy, checker, shuffle=Random(seed))
    return await loop.solve(problem), roles


def rungs(status: QuestionStatus) -> list[tuple[str, str]]:
    return [(rung["rung"], rung["outcome"]) for rung in status.raw["ladder"]]


def shown_first(roles: ScriptedRoles) -> str:
    (prompt,) = roles.prompts("adjudicate")
    return "11" if prompt.index("\n11\n") < prompt.index("\n12\n") else "12"


async def test_the_order_of_the_rungs() -> None:
    checker = TableChecker({"11": "check_failed", "13": "check_failed"})
    status, roles = await climbed(
        replace(ONE, max_attempts=2),
        checker=checker,
        resolve=[answered("11"), answered("13")],
        review=[judged(False, "12", "no")] * 2,
        adjudicate=[chosen(0)],
        sample=[answered("11"), answered("12"), answered("14")],
    )
    assert rungs(status) == [
        ("code_check", "check_failed"),
        ("resolve", "asked again"),
        ("code_check", "check_failed"),
        ("adjudicator", "neither"),
        ("majority", "none"),
        ("abstain", "exhausted"),
    ]
    assert status.state == "exhausted"
    assert roles.steps[-4:] == ["adjudicate", "sample", "sample", "sample"]


@pytest.mark.parametrize("seed", range(8))
async def test_the_adjudicator_settles_for_either(seed: int) -> None:
    for choice in (1, 2):
        status, roles = await climbed(seed=seed, adjudicate=[chosen(choice)])
        first = shown_first(roles)
        second = {"11": "12", "12": "11"}[first]
        assert status.final_response == (first if choice == 1 else second)
        assert (status.state, status.raw["decided_by"]) == ("accepted", "adjudicator")
        assert status.reasoning == {"11": "R", "12": "V"}[status.final_response]
        assert status.validator_answer == "12"


async def test_the_order_shown_is_drawn() -> None:
    orders: list[str] = []
    for seed in range(32):
        _, roles = await climbed(seed=seed, adjudicate=[chosen(1)])
        orders.append(shown_first(roles))
    assert 6 <= orders.count("11") <= 26


async def test_the_order_shown_follows_from_seed_and_question() -> None:
    async def order(seed: int, id: str) -> str:
        problem = replace(TEXT, id=id)
        _, roles = await climbed(seed=seed, problem=problem, adjudicate=[chosen(1)])
        return shown_first(roles)

    ids = [f"q-{n}" for n in range(12)]
    assert [await order(5, id) for id in ids] == [await order(5, id) for id in ids]
    assert len({await order(5, id) for id in ids}) == 2


async def test_the_adjudicator_hears_of_no_author_and_no_reasoning() -> None:
    _, roles = await climbed(
        resolve=[answered("11", "RESOLVER-REASON")],
        blind=[answered("12", "VALIDATOR-REASON")],
        adjudicate=[chosen(1)],
    )
    ask = roles.asks[-1]
    assert (ask.role, ask.step) == ("adjudicator", "adjudicate")
    assert "REASON" not in ask.prompt
    for word in ("resolver", "validator", "candidate", "reviewer"):
        assert word not in (ask.prompt + ask.system).lower()


async def test_an_unreadable_choice_is_asked_for_once_more() -> None:
    status, roles = await climbed(adjudicate=["the first"], reask=[chosen(1)])
    assert status.state == "accepted"
    assert (roles.asks[-1].role, roles.asks[-1].step) == ("adjudicator", "reask")


@pytest.mark.parametrize(
    "failing", [{"adjudicate": [no_model()]}, {"adjudicate": ["?"], "reask": ["?"]}]
)
async def test_a_failing_adjudicator_leaves_it_to_the_majority(failing: Any) -> None:
    status, _ = await climbed(**failing, sample=[answered("12")] * 3)
    assert (status.state, status.raw["decided_by"]) == ("accepted", "majority")
    assert rungs(status)[0][1].startswith("failed: ")
    assert "error" not in status.raw


async def test_the_adjudicator_may_not_choose_what_code_refutes() -> None:
    status, roles = await climbed(
        replace(ONE, samples=0),
        checker=TableChecker({"11": "refuted"}),
    )
    assert ("adjudicator", "no two answers that may be right") in rungs(status)
    assert "adjudicate" not in roles.steps
    assert (status.state, status.final_response) == ("exhausted", "12")


async def test_the_choice_is_checked() -> None:
    """Without a blind answer, the validator's result has met no code before."""
    for choice in (1, 2):
        status, roles = await climbed(
            replace(ONE, blind=False, samples=0),
            checker=TableChecker({"11": "check_failed", "12": "refuted"}),
            adjudicate=[chosen(choice)],
        )
        refuted = ["11", "12"][choice - 1] == "12" if shown_first(roles) == "11" else choice == 1
        assert status.state == ("exhausted" if refuted else "accepted")
        assert status.final_response == "11"


async def test_without_a_blind_answer_the_last_reviewed_result_competes() -> None:
    status, roles = await climbed(
        replace(ONE, blind=False, max_attempts=2, samples=0),
        resolve=[answered("11"), answered("11")],
        review=[judged(False, "13", "no"), judged(False, "12", "no")],
        adjudicate=[chosen(0)],
    )
    prompt = roles.prompts("adjudicate")[0]
    assert "\n12\n" in prompt and "\n11\n" in prompt and "\n13\n" not in prompt
    assert (status.state, status.final_response) == ("exhausted", "11")


async def test_the_majority_settles_what_the_validator_shares() -> None:
    status, roles = await climbed(
        adjudicate=[chosen(0)],
        sample=[answered("12", "S"), answered("9"), answered("12")],
    )
    assert (status.state, status.final_response) == ("accepted", "12")
    assert (status.raw["decided_by"], status.attempts) == ("majority", 1)
    assert len({ask.prompt for ask in roles.asks if ask.step == "sample"}) == 1
    assert status.raw["confidence"]["agreement"] == round(3 / 5, 4)
    assert status.reasoning == "S"  # the resolver's words are handed in


async def test_the_resolvers_own_majority_is_no_second_opinion() -> None:
    status, _ = await climbed(adjudicate=[chosen(0)], sample=[answered("11")] * 3)
    assert (status.state, status.final_response) == ("exhausted", "11")
    assert ("majority", "not shared by the validator") in rungs(status)


async def test_half_is_no_majority() -> None:
    status, _ = await climbed(
        replace(ONE, samples=4),
        adjudicate=[chosen(0)],
        sample=[answered("12"), answered("12"), answered("8"), answered("9")],
    )
    assert (status.state, ("majority", "none") in rungs(status)) == ("exhausted", True)


async def test_samples_that_fail_do_not_count_for_a_majority() -> None:
    status, _ = await climbed(adjudicate=[chosen(0)], sample=[answered("12"), no_model()])
    assert status.state == "exhausted"
    assert status.raw["history"][-1]["failed"]["code"] == "model_error"


async def test_a_refuted_majority_is_not_accepted() -> None:
    class Late(TableChecker):
        """Says nothing of the first two answers, as when a check fails and then works."""

        async def check(self, problem: Problem, response: str) -> CheckOutcome:
            self.table = {"11": "not_applicable", "12": "refuted"}
            return await super().check(problem, response)

    status, _ = await climbed(adjudicate=[chosen(0)], sample=[answered("12")] * 3, checker=Late({}))
    assert ("majority", "refuted by code") in rungs(status)
    assert (status.state, status.final_response) == ("exhausted", "11")


async def test_without_rungs_it_abstains_at_once() -> None:
    status, roles = await climbed(replace(ONE, adjudicate=False, samples=0))
    assert rungs(status) == [("abstain", "exhausted")]
    assert roles.steps == ["resolve", "blind", "review"]
    assert (status.accepted, status.final_response) == (False, "11")
