"""Arms of an exam held against each other: paired, with repeats, corrected for many comparisons."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from deerflow.errors import UsageError
from deerflow.exam.accounts import Spent, summed
from deerflow.exam.calibration import Confusion
from deerflow.exam.contract import read_results
from deerflow.exam.dataset import Dataset
from deerflow.exam.effort import Effort, effort
from deerflow.exam.graded import Graded, Grading, grade_file
from deerflow.exam.statistics import (
    Estimate,
    detectable,
    differences,
    holm,
    interval,
    least_wins,
    mcnemar,
    resampled,
    wilson,
)

_RESULTS = re.compile(r"results(?:-([0-9]{1,4}))?\.json")


@dataclass(frozen=True, slots=True)
class Arm:
    """One way of answering, with its repeats.

    Attributes:
        name: unique among the arms that are compared.
        repeats: graded strictly, in the order of their files.
        effort: lines of code and time.
    """

    name: str
    repeats: tuple[Graded, ...]
    effort: Effort = Effort()

    @property
    def model(self) -> str:
        """Of the first repeat."""
        return self.repeats[0].file.model

    @property
    def leaky(self) -> bool:
        """Whether the key had a way into the answers of any repeat."""
        return any(each.leaky for each in self.repeats)

    def shares(self) -> dict[str, list[float]]:
        """Strict grades by question, one for each repeat."""
        found: dict[str, list[float]] = {}
        for repeat in self.repeats:
            for each in repeat.strict:
                found.setdefault(each.question_id, []).append(each.grade.normalized)
        return found

    def right(self) -> dict[str, bool]:
        """Whether a question is fully right in more than half of the repeats."""
        counts = Counter(name for each in self.repeats for name, ok in each.right.items() if ok)
        return {name: 2 * counts[name] > len(self.repeats) for name in self.repeats[0].right}

    @property
    def compat(self) -> float:
        """The public grader's score, the mean of the repeats."""
        return fmean(each.scores.overall for each in self.repeats)

    @property
    def mean(self) -> float:
        """The strict score, the mean of the repeats."""
        return fmean(fmean(shares) for shares in self.shares().values())

    @property
    def fully_right(self) -> Estimate:
        """Share of questions that are right in most repeats, with its Wilson interval."""
        right = self.right()
        return wilson(sum(right.values()), len(right))

    @property
    def spent(self) -> Spent:
        """Of all repeats."""
        return summed(told.total for each in self.repeats for told in each.accounts.values())

    @property
    def correct(self) -> int:
        """Fully right answers of all repeats."""
        return sum(sum(each.right.values()) for each in self.repeats)

    @property
    def confusion(self) -> Confusion:
        """Accepted against right, of all repeats."""
        parts = [each.confusion for each in self.repeats]
        return Confusion(
            sum(part.accepted_right for part in parts),
            sum(part.accepted_wrong for part in parts),
            sum(part.refused_right for part in parts),
            sum(part.refused_wrong for part in parts),
        )

    def confidence(self, kind: str) -> list[tuple[float, bool]]:
        """See `Graded.confidence`; of all repeats."""
        return [pair for each in self.repeats for pair in each.confidence(kind)]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two arms.

    Attributes:
        one, other: their names.
        difference: of the mean strict scores, `other` minus `one`.
        gained: questions that only `other` has right.
        lost: questions that only `one` has right.
        p: of the exact McNemar test.
        adjusted: `p` after Holm, over all pairs.
    """

    one: str
    other: str
    difference: Estimate
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    p: float
    adjusted: float = 1.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """Arms held against each other.

    Attributes:
        dataset: that all were graded by.
        arms: in the order given, those whose answers the key could not reach.
        apart: the others; they are in no pair.
        means: mean strict score with its bootstrap interval, by arm.
        pairs: every two arms.
        wins_needed: questions that an arm must win without a loss for p < 0.05.
        detectable: true gain that is found four times in five, None when none is.
    """

    dataset: Dataset
    arms: tuple[Arm, ...]
    apart: tuple[Arm, ...]
    means: Mapping[str, Estimate]
    pairs: tuple[Pair, ...]
    wins_needed: int
    detectable: float | None


def result_files(place: Path) -> list[Path]:
    """The result files of a folder in the order of their repeats; a file stands for itself.

    Raises:
        UsageError: there are none.
    """
    if place.is_file():
        return [place]
    names = [path.name for path in place.iterdir()] if place.is_dir() else []
    found = {int(match[1] or 1): name for name in names if (match := _RESULTS.fullmatch(name))}
    if not found:
        raise UsageError(
            f"{place} holds no results.json.",
            cure="Give the --out folder of an exam, or a result file.",
        )
    return [place / found[number] for number in sorted(found)]


async def load_arm(place: Path, dataset: Dataset, grading: Grading) -> Arm:
    """Read and grade all repeats of a folder; always strictly.

    Raises:
        UsageError: no result file, one that cannot be graded strictly, or files of several arms.
        ModelError: of a judge.
    """
    strictly = replace(grading, must_be_strict=True)
    repeats: list[Graded] = []
    for path in result_files(place):
        try:
            repeats.append(await grade_file(read_results(path), dataset, strictly))
        except UsageError as error:
            raise UsageError(f"{path}: {error.message}", cure=error.cure) from error
    kinds = {(each.label, each.file.model) for each in repeats}
    if len(kinds) > 1:
        told = ", ".join(sorted(f"{label} ({model})" for label, model in kinds))
        raise UsageError(
            f"{place} holds results of several arms: {told}.", cure="Keep each in its own folder."
        )
    took = effort([each.file for each in repeats], place)
    return Arm(repeats[0].label, tuple(repeats), took)


def named(arms: Sequence[Arm], places: Sequence[Path]) -> list[Arm]:
    """The arms with names of their own: equal ones are told apart by folder, then by number."""
    given = Counter(arm.name for arm in arms)
    found: list[Arm] = []
    taken: Counter[str] = Counter()
    for arm, place in zip(arms, places, strict=True):
        folder = place.stem if place.is_file() else place.resolve().name
        name = arm.name if given[arm.name] == 1 else f"{arm.name} ({folder})"
        taken[name] += 1
        found.append(replace(arm, name=name if taken[name] == 1 else f"{name} {taken[name]}"))
    return found


def compare(dataset: Dataset, arms: Sequence[Arm], *, seed: int = 0) -> Comparison:
    """Hold arms against each other.

    Args:
        dataset: that all were graded by.
        arms: with unique names.
        seed: of the bootstrap.
    """
    strata = {question.id: question.subject for question in dataset.questions}
    fair = tuple(arm for arm in arms if not arm.leaky)
    samples = {
        arm.name: resampled(arm.shares(), strata, seed=seed, arm=str(place))
        for place, arm in enumerate(arms)
    }
    pairs = [_pair(one, other, samples, seed) for one, other in itertools.combinations(fair, 2)]
    adjusted = holm([pair.p for pair in pairs])
    return Comparison(
        dataset=dataset,
        arms=fair,
        apart=tuple(arm for arm in arms if arm.leaky),
        means={arm.name: _of_shares(interval(arm.mean, samples[arm.name])) for arm in arms},
        pairs=tuple(replace(pair, adjusted=p) for pair, p in zip(pairs, adjusted, strict=True)),
        wins_needed=least_wins(),
        detectable=detectable(len(dataset.questions)),
    )


def _of_shares(estimate: Estimate) -> Estimate:
    """The samples are widened, so that an end may lie beyond what a score can be."""
    return replace(estimate, low=max(0.0, estimate.low), high=min(1.0, estimate.high))


def _pair(one: Arm, other: Arm, samples: Mapping[str, Sequence[float]], seed: int) -> Pair:
    """`samples` hold the same questions for both, so that their difference is paired."""
    before, after = one.right(), other.right()
    gained = tuple(name for name, right in after.items() if right and not before[name])
    lost = tuple(name for name, right in before.items() if right and not after[name])
    gains = differences(samples[one.name], samples[other.name], len(after), seed=seed)
    difference = interval(other.mean - one.mean, gains)
    return Pair(one.name, other.name, difference, gained, lost, mcnemar(len(gained), len(lost)))
