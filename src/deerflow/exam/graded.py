"""A result file with its grades: the compatible ones and the strict ones side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deerflow.errors import UsageError
from deerflow.exam.accounts import Account, account
from deerflow.exam.calibration import Confusion, Revisions, confusion, revisions
from deerflow.exam.contract import Answer, ResultFile
from deerflow.exam.dataset import Dataset
from deerflow.exam.graders import judge as judging
from deerflow.exam.graders import strict
from deerflow.exam.graders.compat import Grade
from deerflow.exam.graders.judge import Judge
from deerflow.exam.graders.scores import Scored, Scores, compat_scored, scores_of
from deerflow.exam.graders.strict import Reading


@dataclass(frozen=True, slots=True)
class Graded:
    """One result file, graded.

    Attributes:
        file: as it was read.
        dataset: that it was held against.
        compat: grades of the public grader, one for each record that the dataset knows.
        strict: grades of every question of the dataset; empty when `refusal` says why.
        accounts: what the graded records tell beside their answers, by question; the first record
            of a question counts.
        moves: (first answer right, last answer right) of records that tell their first answer.
        refusal: why strict grading is not possible, "" when it is.
    """

    file: ResultFile
    dataset: Dataset
    compat: tuple[Scored, ...]
    strict: tuple[Scored, ...]
    accounts: Mapping[str, Account]
    moves: tuple[tuple[bool, bool], ...]
    refusal: str = ""

    @property
    def label(self) -> str:
        """The framework, with its arm where it names one."""
        arm = self.file.config.get("arm")
        arm = arm.strip() if isinstance(arm, str) else ""
        return f"{self.file.framework} {arm}".strip() or "(no name)"

    @property
    def leaky(self) -> bool:
        """Whether the key had a way into the answers, so that they compare with nothing else."""
        return self.file.config.get("leaky") is True

    @property
    def scores(self) -> Scores:
        """Of the public grader."""
        return scores_of(self.compat)

    @property
    def strict_scores(self) -> Scores | None:
        """Of the strict grader; None when it refuses."""
        return None if self.refusal else scores_of(self.strict)

    @property
    def counted(self) -> tuple[Scored, ...]:
        """The grades that decide what is right: the strict ones where there are any."""
        return self.strict or self.compat

    @property
    def right(self) -> dict[str, bool]:
        """Whether each question is fully right, by id."""
        return {each.question_id: each.grade.correct for each in self.counted}

    @property
    def confusion(self) -> Confusion:
        """Accepted against right, of the records that a validator has looked at."""
        right = self.right
        return confusion(
            (each.accepted, right[name])
            for name, each in self.accounts.items()
            if each.accepted is not None and name in right
        )

    @property
    def revisions(self) -> Revisions:
        """What became of first answers."""
        return revisions(self.moves)

    def confidence(self, kind: str) -> list[tuple[float, bool]]:
        """(confidence, right) of the records that tell it; `kind` is "stated" or "agreement"."""
        right = self.right
        told = (
            (each.stated if kind == "stated" else each.agreement, right[name])
            for name, each in self.accounts.items()
            if name in right
        )
        return [(value, correct) for value, correct in told if value is not None]


@dataclass(frozen=True, slots=True)
class Grading:
    """How files are graded.

    Attributes:
        reading: how the strict grader compares answers.
        judge: grades answers in words for the public grader's scores; None does it by keywords.
        hardened: the same judge for the strict scores, with the student's text delimited.
        must_be_strict: a file that cannot be graded strictly is refused.
    """

    reading: Reading
    judge: Judge | None = None
    hardened: Judge | None = None
    must_be_strict: bool = False


async def grade_file(file: ResultFile, dataset: Dataset, grading: Grading) -> Graded:
    """Grade a result file both ways.

    Raises:
        UsageError: it must be strict, and ids are unknown or repeated; names them.
        ModelError: of a judge.
    """
    records = dataset.records()
    refusal = ""
    graded: list[Scored] = []
    try:
        judged = _hardened(grading.hardened)
        graded = await strict.strict_scored(dataset, file.results, grading.reading, judged=judged)
    except UsageError as error:
        if grading.must_be_strict:
            raise
        refusal = error.message
    known = [answer for answer in file.results if answer.question_id in records]
    firsts = {answer.question_id: answer for answer in reversed(known)}
    return Graded(
        file=file,
        dataset=dataset,
        compat=tuple(await _compat(records, known, grading.judge)),
        strict=tuple(graded),
        accounts={name: account(firsts[name]) for name in dataset.ids if name in firsts},
        moves=tuple(_moves(dataset, firsts, grading.reading)),
        refusal=refusal,
    )


def _hardened(judge: Judge | None) -> strict.Judged | None:
    if judge is None:
        return None

    async def judged(question: Mapping[str, Any], response: str) -> Grade:
        return await judging.grade_hardened(question, response, judge)

    return judged


async def _compat(
    records: Mapping[str, dict[str, Any]], answers: Sequence[Answer], judge: Judge | None
) -> list[Scored]:
    if judge is None:
        return compat_scored(records, answers)
    return [
        Scored(
            answer.question_id,
            await judging.grade(records[answer.question_id], answer.response, judge),
            str(records[answer.question_id]["type"]),
        )
        for answer in answers
    ]


def _moves(
    dataset: Dataset, answers: Mapping[str, Answer], reading: Reading
) -> list[tuple[bool, bool]]:
    found: list[tuple[bool, bool]] = []
    for question in dataset.questions:
        answer = answers.get(question.id)
        told = None if answer is None else account(answer)
        if answer is None or told is None or told.first is None:
            continue
        both = (told.first, answer.response)
        first, last = (strict.grade(question, text, reading).correct for text in both)
        found.append((first, last))
    return found
