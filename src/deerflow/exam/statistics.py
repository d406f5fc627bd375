"""What a difference between exam results is worth: intervals, paired tests, detectable effects."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean

DRAWS = 2_000
"""Bootstrap samples: enough for the second digit of a 95 % interval (Efron and Tibshirani, "An
Introduction to the Bootstrap", 1993, section 19.3, ask for at least 1,000)."""

Repeats = Mapping[str, Sequence[float]]
"""Scores of one arm by question: one number for each repeat."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and the interval around it."""

    value: float
    low: float
    high: float


def wilson(successes: int, trials: int, confidence: float = 0.95) -> Estimate:
    """Interval of a proportion.

    Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference",
    JASA 22 (1927); without continuity correction.

    Args:
        successes: of the trials.
        trials: 0 gives the interval from 0 to 1 around 0.
        confidence: of the two-sided interval.
    """
    if not trials:
        return Estimate(0.0, 0.0, 1.0)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = successes / trials
    weight = 1 + z * z / trials
    centre = (share + z * z / (2 * trials)) / weight
    half = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials)) / weight
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == trials else min(1.0, centre + half)
    return Estimate(share, low, high)


def bootstrap(
    scores: Repeats,
    strata: Mapping[str, str],
    *,
    seed: int,
    draws: int = DRAWS,
    confidence: float = 0.95,
) -> Estimate:
    """Percentile interval of a mean score.

    Questions are drawn with replacement inside their stratum, then each drawn question's repeats
    are drawn with replacement: the two stages of a nested design.

    Source: B. Efron, "Bootstrap methods: another look at the jackknife", Annals of Statistics 7
    (1979); strata and two stages: Davison and Hinkley, "Bootstrap Methods and Their Application"
    (1997), sections 3.2 and 3.8.

    Args:
        scores: by question; a question without repeats is left out.
        strata: the subject of each question.
        seed: equal seeds give equal intervals.
        draws: samples.
        confidence: of the two-sided interval.
    """
    samples = resampled(scores, strata, seed=seed, draws=draws)
    return interval(_mean(scores), samples, confidence)


def paired_bootstrap(
    one: Repeats,
    other: Repeats,
    strata: Mapping[str, str],
    *,
    seed: int,
    draws: int = DRAWS,
    confidence: float = 0.95,
) -> Estimate:
    """Percentile interval of the difference of two arms' mean scores, `other` minus `one`.

    Each sample takes the same questions for both arms; repeats are drawn for each arm by itself.
    Sources and arguments as of `bootstrap`; questions that one arm lacks are left out.
    """
    shared = [name for name in one if one[name] and other.get(name)]
    first, second = ({name: arm[name] for name in shared} for arm in (one, other))
    before = resampled(first, strata, seed=seed, draws=draws, arm="one")
    after = resampled(second, strata, seed=seed, draws=draws, arm="other")
    samples = differences(before, after, len(shared), seed=seed)
    return interval(_mean(second) - _mean(first), samples, confidence)


def resampled(
    scores: Repeats, strata: Mapping[str, str], *, seed: int, draws: int = DRAWS, arm: str = ""
) -> list[float]:
    """Mean scores of the samples behind `bootstrap`, 0 where there are no scores.

    Arms with the same questions and the same seed get the same questions in each sample, so the
    difference of two such lists is paired.

    Source of the widening: J. N. K. Rao and C. F. J. Wu, "Resampling inference with complex survey
    data", JASA 83 (1988): drawing n from the n questions of a stratum gives (n - 1)/n of the
    variance, which matters for small strata.

    Args:
        scores: by question; a question without repeats is left out.
        strata: the subject of each question.
        seed: draws the questions, and with `arm` the repeats.
        draws: samples.
        arm: tells arms apart.
    """
    groups: dict[str, list[str]] = {}
    for name in sorted(name for name, repeats in scores.items() if repeats):
        groups.setdefault(strata.get(name, ""), []).append(name)
    if not groups:
        return [0.0] * draws
    questions = random.Random(seed)  # noqa: S311  (statistics, not secrets)
    repeats = random.Random(f"{seed}:{arm}")  # noqa: S311  (statistics, not secrets)
    samples: list[float] = []
    for _ in range(draws):
        drawn = [
            name for group in groups.values() for name in questions.choices(group, k=len(group))
        ]
        samples.append(_drawn_mean(scores, drawn, repeats))
    count = sum(len(group) for group in groups.values())
    wider = math.sqrt(count / (count - len(groups))) if count > len(groups) else 1.0
    middle = _mean(scores)
    return [middle + wider * (sample - middle) for sample in samples]


def differences(
    before: Sequence[float], after: Sequence[float], questions: int, *, seed: int
) -> list[float]:
    """Samples of the difference of two arms, `after` minus `before`.

    One question that was won and one that was lost are added to those that were asked: without
    them, two arms that hardly ever differ would seem to be known exactly. Source: A. Agresti and
    Y. Min, "Simple improved confidence intervals for comparing matched proportions", Statistics in
    Medicine 24 (2005); in a bootstrap sample each of the two is there about once (Poisson).

    Args:
        before: samples of `resampled`.
        after: of the other arm, with the same questions in each.
        questions: how many both arms answered.
        seed: draws the added ones.
    """
    source = random.Random(f"{seed}:added")  # noqa: S311  (statistics, not secrets)
    return [
        (questions * (gained - had) + _poisson(source) - _poisson(source)) / (questions + 2)
        for had, gained in zip(before, after, strict=True)
    ]


def _poisson(source: random.Random) -> int:
    """A number of mean 1, by inversion."""
    left, chance, count = source.random(), math.exp(-1), 0
    while left > chance and count < 20:
        left -= chance
        count += 1
        chance /= count
    return count


def interval(value: float, samples: Sequence[float], confidence: float = 0.95) -> Estimate:
    """A value with the percentile interval of its bootstrap samples; source as of `bootstrap`."""
    ordered, tail = sorted(samples), (1 - confidence) / 2
    return Estimate(value, quantile(ordered, tail), quantile(ordered, 1 - tail))


def _drawn_mean(scores: Repeats, drawn: Sequence[str], source: random.Random) -> float:
    total = 0.0
    for name in drawn:
        repeats = scores[name]
        many = len(repeats)
        total += repeats[0] if many == 1 else sum(source.choices(repeats, k=many)) / many
    return total / len(drawn)


def _mean(scores: Repeats) -> float:
    means = [fmean(repeats) for repeats in scores.values() if repeats]
    return fmean(means) if means else 0.0


def quantile(ordered: Sequence[float], share: float) -> float:
    """Quantile of sorted values, linear between neighbours.

    Source: Hyndman and Fan, "Sample quantiles in statistical packages", American Statistician 50
    (1996), definition 7.
    """
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def mcnemar(wins: int, losses: int) -> float:
    """Exact two-sided p-value that two arms are equally often right; ties do not count.

    Source: Q. McNemar, Psychometrika 12 (1947), in its exact form: twice the smaller tail of a
    binomial distribution with even odds, at most 1.

    Args:
        wins: questions that only the second arm has right.
        losses: questions that only the first arm has right.
    """
    pairs = wins + losses
    tail = sum(math.comb(pairs, count) for count in range(min(wins, losses) + 1))
    return min(1.0, 2 * tail / 2**pairs)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values, in the order given: each may be held against the level itself.

    Source: S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal
    of Statistics 6 (1979).
    """
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return adjusted


def least_wins(losses: int = 0, level: float = 0.05) -> int:
    """Fewest wins against so many losses for which the exact McNemar test passes the level.

    Source: the test's own tail, see `mcnemar`; found by counting up.
    """
    wins = losses + 1
    while mcnemar(wins, losses) >= level:
        wins += 1
    return wins


def power(questions: int, win: float, loss: float, level: float = 0.05) -> float:
    """Chance that the exact McNemar test finds a difference in favour of the second arm.

    Source: the trinomial distribution of wins, losses and ties, summed over all outcomes that the
    test rejects (S. W. Duffy, "Asymptotic and exact power for the McNemar test", Biometrics 40,
    1984).

    Args:
        questions: that both arms answer.
        win: chance that only the second arm has a question right.
        loss: chance that only the first arm has it right.
        level: of the two-sided test.
    """
    total = 0.0
    needed = 0
    for losses in range(questions + 1):
        needed = max(needed, losses + 1)
        while needed + losses <= questions and mcnemar(needed, losses) >= level:
            needed += 1
        for wins in range(needed, questions - losses + 1):
            total += _trinomial(questions, wins, losses, win, loss)
    return min(1.0, total)


def _trinomial(questions: int, wins: int, losses: int, win: float, loss: float) -> float:
    tie = max(0.0, 1 - win - loss)
    ties = questions - wins - losses
    if (wins and not win) or (losses and not loss) or (ties and not tie):
        return 0.0
    ways = math.lgamma(questions + 1) - sum(math.lgamma(n + 1) for n in (wins, losses, ties))
    parts = ((wins, win), (losses, loss), (ties, tie))
    return math.exp(ways + sum(n * math.log(chance) for n, chance in parts if n))


def detectable(
    questions: int, loss: float = 0.0, *, level: float = 0.05, wanted: float = 0.8
) -> float | None:
    """Smallest true difference that is found with the wanted power; None when none is.

    A difference is the share of questions that the second arm wins, minus `loss`. Source: exact
    power (`power`), halved down to a thousandth.

    Args:
        questions: that both arms answer.
        loss: share of questions that the first arm wins.
        level: of the two-sided exact McNemar test.
        wanted: power.
    """
    low, high = 0.0, 1.0 - loss
    if power(questions, high, loss, level) < wanted:
        return None
    while high - low > 0.001:
        middle = (low + high) / 2
        if power(questions, middle, loss, level) >= wanted:
            high = middle
        else:
            low = middle
    return high - loss
