"""How far stated confidence and acceptance can be trusted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

BINS = 5
"""Few: with 50 answers a bin still holds ten on average."""

Stated = Sequence[tuple[float, bool]]
"""Confidence from 0 to 1, and whether the answer was right."""


@dataclass(frozen=True, slots=True)
class Bin:
    """Answers of one range of confidence.

    Attributes:
        low, high: the range; its upper end belongs to it, 0 to the first.
        count: answers.
        confidence: their mean confidence, 0 without answers.
        accuracy: the share of them that is right, 0 without answers.
    """

    low: float
    high: float
    count: int
    confidence: float
    accuracy: float


def reliability(stated: Stated, bins: int = BINS) -> list[Bin]:
    """Accuracy by confidence, in ranges of equal width.

    Source: DeGroot and Fienberg, "The comparison and evaluation of forecasters", The Statistician
    32 (1983).
    """
    groups: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]
    for confidence, right in stated:
        # Ends as quotients: 0.6 belongs to the range that ends at 3/5.
        place = next(place for place in range(bins) if confidence <= (place + 1) / bins)
        groups[place].append((confidence, right))
    return [
        Bin(
            place / bins,
            (place + 1) / bins,
            len(group),
            sum(confidence for confidence, _ in group) / len(group) if group else 0.0,
            sum(right for _, right in group) / len(group) if group else 0.0,
        )
        for place, group in enumerate(groups)
    ]


def calibration_error(stated: Stated, bins: int = BINS) -> float | None:
    """Expected calibration error: the mean gap of a bin, weighed by its answers; None without any.

    Source: Naeini, Cooper and Hauskrecht, "Obtaining well calibrated probabilities using Bayesian
    binning", AAAI 2015.
    """
    if not stated:
        return None
    found = reliability(stated, bins)
    gaps = (each.count * abs(each.accuracy - each.confidence) for each in found)
    return sum(gaps) / len(stated)


def brier(stated: Stated) -> float | None:
    """Mean squared distance of confidence and outcome, 0 to 1, lower is better; None without any.

    Source: G. W. Brier, "Verification of forecasts expressed in terms of probability", Monthly
    Weather Review 78 (1950), for two outcomes and one of its two terms.
    """
    if not stated:
        return None
    return sum((confidence - right) ** 2 for confidence, right in stated) / len(stated)


def risk_coverage(stated: Stated) -> list[tuple[float, float]]:
    """(coverage, risk) when only answers from some confidence upward are given.

    A point for each confidence that occurs, from the highest: the share of answers given, and the
    share of those that is wrong. Answers of one confidence are given together.

    Source: El-Yaniv and Wiener, "On the foundations of noise-free selective classification", JMLR
    11 (2010).
    """
    points: list[tuple[float, float]] = []
    wrong = 0
    ordered = sorted(stated, key=lambda each: -each[0])
    for given, (confidence, right) in enumerate(ordered, 1):
        wrong += not right
        if given == len(ordered) or ordered[given][0] != confidence:
            points.append((given / len(ordered), wrong / given))
    return points


@dataclass(frozen=True, slots=True)
class Confusion:
    """A validator as a classifier of answers: accepted or not, right or wrong.

    Source of the ratios: C. J. van Rijsbergen, "Information Retrieval" (1979), chapter 7. Each is
    None where nothing stands below the line.
    """

    accepted_right: int = 0
    accepted_wrong: int = 0
    refused_right: int = 0
    refused_wrong: int = 0

    @property
    def total(self) -> int:
        """Answers that were judged."""
        return self.accepted_right + self.accepted_wrong + self.refused_right + self.refused_wrong

    @property
    def precision(self) -> float | None:
        """Share of accepted answers that is right."""
        return _ratio(self.accepted_right, self.accepted_right + self.accepted_wrong)

    @property
    def recall(self) -> float | None:
        """Share of right answers that was accepted."""
        return _ratio(self.accepted_right, self.accepted_right + self.refused_right)

    @property
    def false_accepts(self) -> float | None:
        """Share of wrong answers that was accepted."""
        return _ratio(self.accepted_wrong, self.accepted_wrong + self.refused_wrong)


def confusion(judged: Iterable[tuple[bool, bool]]) -> Confusion:
    """Counts of (accepted, right)."""
    pairs = list(judged)
    return Confusion(
        accepted_right=pairs.count((True, True)),
        accepted_wrong=pairs.count((True, False)),
        refused_right=pairs.count((False, True)),
        refused_wrong=pairs.count((False, False)),
    )


@dataclass(frozen=True, slots=True)
class Revisions:
    """What became of first answers.

    Attributes:
        helpful: wrong at first, right in the end.
        harmful: right at first, wrong in the end.
        idle: as right or wrong as before.
    """

    helpful: int = 0
    harmful: int = 0
    idle: int = 0


def revisions(first_and_last: Iterable[tuple[bool, bool]]) -> Revisions:
    """Counts of (first answer right, last answer right).

    Source: Huang et al., "Large language models cannot self-correct reasoning yet", ICLR 2024,
    which counts the changes from right to wrong and from wrong to right.
    """
    pairs = list(first_and_last)
    helpful, harmful = pairs.count((False, True)), pairs.count((True, False))
    return Revisions(helpful, harmful, len(pairs) - helpful - harmful)


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
