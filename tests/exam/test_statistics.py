"""Statistics against published values and against brute force."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from fractions import Fraction
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.exam.statistics import (
    bootstrap,
    detectable,
    holm,
    least_wins,
    mcnemar,
    paired_bootstrap,
    power,
    quantile,
    wilson,
)


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        # R. G. Newcombe, "Two-sided confidence intervals for the single proportion", Statistics in
        # Medicine 17 (1998), table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_against_a_published_table(
    successes: int, trials: int, low: float, high: float
) -> None:
    found = wilson(successes, trials)
    assert (round(found.low, 4), round(found.high, 4)) == (low, high)
    assert found.value == successes / trials


def test_wilson_of_the_sizes_of_an_exam() -> None:
    assert [round(100 * wilson(right, 50).low, 1) for right in (50, 45)] == [92.9, 78.6]
    assert round(100 * wilson(45, 50).high, 1) == 95.7
    assert round(100 * wilson(4, 4).low) == 51
    assert (wilson(0, 0).low, wilson(0, 0).high) == (0.0, 1.0)


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_solves_its_own_equation(case: tuple[int, int]) -> None:
    """Its ends are the p with |share - p| = z sqrt(p (1 - p) / n)."""
    successes, trials = case
    found = wilson(successes, trials)
    for end in (found.low, found.high):
        if 0 < end < 1:
            gap = (found.value - end) ** 2
            assert gap == pytest.approx(1.959963984540054**2 * end * (1 - end) / trials, abs=1e-9)
    assert 0 <= found.low <= found.value <= found.high <= 1


def brute_mcnemar(wins: int, losses: int) -> Fraction:
    """Every way in which the pairs could have fallen, counted where it is as uneven or more."""
    pairs = wins + losses
    uneven = [
        flips
        for flips in itertools.product((0, 1), repeat=pairs)
        if abs(2 * sum(flips) - pairs) >= abs(wins - losses)
    ]
    return Fraction(len(uneven), 2**pairs)


@given(st.integers(0, 6), st.integers(0, 6))
def test_mcnemar_against_all_outcomes(wins: int, losses: int) -> None:
    assert mcnemar(wins, losses) == pytest.approx(float(brute_mcnemar(wins, losses)))


@pytest.mark.parametrize(
    ("wins", "losses", "p"),
    [(5, 0, 0.0625), (6, 0, 0.03125), (0, 0, 1.0), (3, 3, 1.0), (1, 8, 0.0390625)],
)
def test_mcnemar_of_known_counts(wins: int, losses: int, p: float) -> None:
    assert mcnemar(wins, losses) == p
    assert mcnemar(losses, wins) == p


def test_holm_against_a_worked_example() -> None:
    """The procedure's example on Wikipedia and in R: p.adjust(c(.01,.04,.03,.005), "holm")."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_rejects_what_the_procedure_rejects(p_values: list[float]) -> None:
    level = 0.05
    rejected: set[int] = set()
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        if p_values[place] * (len(p_values) - rank) > level:
            break
        rejected.add(place)
    assert {place for place, p in enumerate(holm(p_values)) if p <= level} == rejected


def test_quantile_is_linear_between_neighbours() -> None:
    assert [quantile([1, 2, 4], share) for share in (0, 0.25, 0.5, 0.75, 1)] == [1, 1.5, 2, 3, 4]


STRATA = {f"{name}{number}": name for name in "ab" for number in range(20)}


def scores(seed: int, chance: float, repeats: int = 1) -> dict[str, Sequence[float]]:
    source = random.Random(seed)
    return {name: [float(source.random() < chance) for _ in range(repeats)] for name in STRATA}


def test_the_bootstrap_of_one_arm_is_near_the_normal_interval() -> None:
    arm = {name: [float(place % 2)] for place, name in enumerate(STRATA)}
    found = bootstrap(arm, STRATA, seed=1, draws=4000)
    half = 1.96 * (0.25 / 40) ** 0.5
    assert found.value == 0.5
    assert found.low == pytest.approx(0.5 - half, abs=0.03)
    assert found.high == pytest.approx(0.5 + half, abs=0.03)


def test_the_bootstrap_against_all_samples_of_a_small_case() -> None:
    """Two strata of two questions: 16 equally likely samples with known means."""
    arm = {"a1": [0.0], "a2": [1.0], "b1": [0.0], "b2": [0.5]}
    strata = {"a1": "a", "a2": "a", "b1": "b", "b2": "b"}
    means = sorted(
        (sum(arm[name][0] for name in (*first, *second))) / 4
        for first in itertools.product(("a1", "a2"), repeat=2)
        for second in itertools.product(("b1", "b2"), repeat=2)
    )
    found = bootstrap(arm, strata, seed=3, draws=4000, confidence=0.5)
    ends = (means[len(means) // 4], means[-len(means) // 4 - 1])
    middle, wider = 0.375, 2**0.5  # two questions a stratum show half of the variance
    assert (found.low, found.high) == pytest.approx([middle + wider * (e - middle) for e in ends])


def test_strata_are_kept() -> None:
    """Subjects that differ from each other alone add nothing to the width."""
    arm = {name: [float(name.startswith("a"))] for name in STRATA}
    found = bootstrap(arm, STRATA, seed=1)
    assert (found.low, found.value, found.high) == (0.5, 0.5, 0.5)
    loose = bootstrap(arm, {}, seed=1)
    assert loose.high - loose.low > 0.2


def test_repeats_inside_a_question_widen_the_interval() -> None:
    steady = {name: [0.5] * 4 for name in STRATA}
    shaky = {name: [0.0, 1.0, 0.0, 1.0] for name in STRATA}
    assert bootstrap(steady, STRATA, seed=1).high == 0.5
    found = bootstrap(shaky, STRATA, seed=1)
    assert found.value == 0.5
    assert found.high - found.low == pytest.approx(2 * 1.96 * (0.25 / 160) ** 0.5, abs=0.03)


def test_pairs_take_the_questions_together() -> None:
    """A constant gain over arms that vary much: only the two added questions make a width."""
    one = scores(1, 0.5)
    other = {name: [value[0] + 0.25] for name, value in one.items()}
    found = paired_bootstrap(one, other, STRATA, seed=1)
    assert found.value == pytest.approx(0.25)
    assert found.low < 0.25 < found.high < found.low + 0.2
    back = paired_bootstrap(other, one, STRATA, seed=1)
    assert back.value == pytest.approx(-0.25)


def test_arms_that_never_differ_are_not_known_to_be_equal() -> None:
    one = scores(1, 0.5)
    found = paired_bootstrap(one, one, STRATA, seed=1)
    assert found.low < found.value == 0.0 < found.high


def test_the_seed_decides() -> None:
    one, other = scores(1, 0.5, 3), scores(2, 0.7, 3)
    first = paired_bootstrap(one, other, STRATA, seed=7)
    assert paired_bootstrap(one, other, STRATA, seed=7) == first
    assert paired_bootstrap(one, other, STRATA, seed=8) != first


def test_questions_of_one_arm_alone_are_left_out() -> None:
    found = paired_bootstrap({"a": [0.0], "b": [1.0]}, {"a": [1.0]}, {}, seed=1)
    assert found.value == 1.0
    assert bootstrap({}, {}, seed=1).value == 0.0
    assert bootstrap({"a": []}, {}, seed=1).value == 0.0


def test_the_fewest_wins() -> None:
    assert [least_wins(losses) for losses in (0, 1, 2, 3)] == [6, 8, 10, 12]
    for losses in range(6):
        wins = least_wins(losses)
        assert mcnemar(wins, losses) < 0.05 <= mcnemar(wins - 1, losses)


def brute_power(questions: int, win: float, loss: float) -> float:
    total = 0.0
    for outcome in itertools.product((1, -1, 0), repeat=questions):
        wins, losses = outcome.count(1), outcome.count(-1)
        if wins > losses and mcnemar(wins, losses) < 0.05:
            total += win**wins * loss**losses * (1 - win - loss) ** outcome.count(0)
    return total


@pytest.mark.parametrize(("win", "loss"), [(0.6, 0.1), (0.9, 0.0), (0.3, 0.3), (1.0, 0.0)])
def test_power_against_all_outcomes(win: float, loss: float) -> None:
    assert power(9, win, loss) == pytest.approx(brute_power(9, win, loss))


def test_power_without_losses_is_a_binomial_tail() -> None:
    tail = sum(comb(50, k) * 0.15**k * 0.85 ** (50 - k) for k in range(6, 51))
    assert power(50, 0.15, 0.0) == pytest.approx(tail)


def test_the_detectable_difference() -> None:
    found = detectable(50)
    assert found is not None
    assert power(50, found, 0.0) >= 0.8 > power(50, found - 0.002, 0.0)
    assert 0.12 < found < 0.18
    harder = detectable(50, 0.1)
    assert harder is not None and harder > found
    assert power(50, 0.1 + harder, 0.1) == pytest.approx(0.8, abs=0.01)
    assert detectable(5) is None
