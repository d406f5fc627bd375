"""Intervals cover a truth that is known, and the report shows what each arm adds to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import fmean

import pytest

from deerflow.errors import UsageError
from deerflow.exam.arms import ARMS
from deerflow.exam.dataset import SUBJECTS, problem_of
from deerflow.exam.simulation import Simulated, World, key_of, outcomes, questions_of, simulate
from deerflow.exam.statistics import Repeats, bootstrap, paired_bootstrap
from deerflow.verify.protocol import Ask

STEPS = (("A0", "A2"), ("A2", "A3"), ("A3", "A4"), ("A4", "A5"))
QUESTIONS = 128


async def pool(arm: str, size: int, world: World) -> list[bool]:
    """What an arm makes of many questions: their mean is the truth that samples are drawn from."""
    found: list[bool] = []
    for seed in range(size // 1_000):
        problems = [problem_of(question) for question in questions_of(1_000, seed)]
        found += await outcomes(world, ARMS[arm], problems, seed)
    return found


def drawn(pools: dict[str, list[bool]], source: Random) -> dict[str, Repeats]:
    """An exam of the same questions under each arm, so many of each subject."""
    size = len(next(iter(pools.values())))
    chosen: dict[str, int] = {}
    for number in range(QUESTIONS):
        subject = number % len(SUBJECTS)
        place = source.randrange(size // len(SUBJECTS)) * len(SUBJECTS) + subject
        chosen[f"{SUBJECTS[subject]}-{number:03}"] = place
    return {
        arm: {name: [float(results[place])] for name, place in chosen.items()}
        for arm, results in pools.items()
    }


async def test_intervals_cover_the_truth(scale: Callable[[int, int], int]) -> None:
    """In the long form 1,000 exams; 95 % intervals have to cover in 93 % of them at least."""
    world, exams, wanted = World(), scale(60, 1_000), 0.93
    arms = sorted({arm for step in STEPS for arm in step})
    pools = {arm: await pool(arm, scale(2_000, 16_000), world) for arm in arms}
    truth = {arm: fmean(results) for arm, results in pools.items()}
    strata = {f"{SUBJECTS[n % 8]}-{n:03}": SUBJECTS[n % 8] for n in range(QUESTIONS)}
    source = Random(7)
    covered = dict.fromkeys([*STEPS, *arms], 0)
    for exam in range(exams):
        scores = drawn(pools, source)
        for one, other in STEPS:
            found = paired_bootstrap(scores[one], scores[other], strata, seed=exam, draws=400)
            covered[one, other] += found.low <= truth[other] - truth[one] <= found.high
        for arm in arms:
            found = bootstrap(scores[arm], strata, seed=exam, draws=400)
            covered[arm] += found.low <= truth[arm] <= found.high
    shares = {what: count / exams for what, count in covered.items()}
    # of so few exams in the short form, a share is three standard errors lower now and then
    slack = 3 * (wanted * (1 - wanted) / exams) ** 0.5 if exams < 1_000 else 0.0
    assert all(share >= wanted - slack for share in shares.values()), shares


async def test_a_world_errs_as_often_as_it_is_told() -> None:
    problems = [problem_of(question) for question in questions_of(1_000, 3)]
    for share in (0.0, 0.3, 1.0):
        found = fmean(await outcomes(World(resolver=share), ARMS["A0"], problems, 3))
        assert abs(found - share) < 0.05


async def test_what_one_knows_and_the_other_does_not_is_what_validation_adds() -> None:
    problems = [problem_of(question) for question in questions_of(1_000, 4)]

    async def gain(world: World) -> float:
        alone, both = [fmean(await outcomes(world, ARMS[a], problems, 4)) for a in ("A0", "A3")]
        return both - alone

    apart = await gain(World(correlation=0.0, corrected=0.8, credulous=0.1, validator=0.9))
    tied = await gain(World(correlation=1.0, lure=1.0, validator=0.7))
    assert apart > 0.1
    assert abs(tied) < 0.02  # who always errs together never disagrees


async def test_the_same_seed_is_the_same_luck() -> None:
    question = questions_of(1, 5)[0]
    ask = Ask(problem_of(question), "resolver", "resolve", 1, "", "")
    said = [(await Simulated(World(), 5).ask(ask)).text for _ in range(2)]
    assert said[0] == said[1]
    assert json.loads(said[0])["response"] in "ABCD"
    assert key_of(question.id, 5) == question.answer


async def test_the_report_shows_what_each_arm_adds(tmp_path: Path) -> None:
    arms = ("A0", "A2", "A5")
    folders = await simulate(World(), arms, tmp_path, questions=32, repeat=2, seed=1)
    assert [folder.name for folder in folders] == list(arms)
    for folder in folders:
        file = json.loads((folder / "results-2.json").read_text("utf-8"))
        assert len(file["results"]) == 32
        assert file["config"]["simulated"]["resolver"] == World().resolver
    assert (tmp_path / "questions.json").exists()


@pytest.mark.parametrize("arm", ["R1", "A9"])
async def test_only_fair_arms_are_simulated(tmp_path: Path, arm: str) -> None:
    with pytest.raises(UsageError, match=arm):
        await simulate(World(), (arm,), tmp_path, questions=8, repeat=1, seed=1)
