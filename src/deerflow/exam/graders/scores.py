"""Scores of a whole result file: means over questions, by subject and by type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deerflow.exam.contract import Answer
from deerflow.exam.graders import compat
from deerflow.exam.graders.compat import Grade


@dataclass(frozen=True, slots=True)
class Scored:
    """The grade of one record; `kind` is the dataset's type of the question, "" when not told."""

    question_id: str
    grade: Grade
    kind: str = ""

    @property
    def subject(self) -> str:
        """The id up to its last hyphen."""
        return self.question_id.rpartition("-")[0]


@dataclass(frozen=True, slots=True)
class Scores:
    """Means of normalised grades; groups stand in the order of their first record.

    Attributes:
        overall: every record weighs the same; 0 without records.
        by_subject: by the id's subject.
        by_type: by the question's type.
        count: records that were graded.
        correct: those with full points.
    """

    overall: float
    by_subject: dict[str, float]
    by_type: dict[str, float]
    count: int
    correct: int


def scores_of(scored: Sequence[Scored]) -> Scores:
    """The means of graded records.

    A record without a type counts as multiple choice when its grade has no criteria, else as a
    short answer.
    """
    subjects: dict[str, list[float]] = {}
    types: dict[str, list[float]] = {}
    for each in scored:
        share = each.grade.normalized
        subjects.setdefault(each.subject, []).append(share)
        types.setdefault(each.kind or _guessed(each.grade), []).append(share)
    return Scores(
        overall=_mean([each.grade.normalized for each in scored]),
        by_subject={name: _mean(shares) for name, shares in subjects.items()},
        by_type={name: _mean(shares) for name, shares in types.items()},
        count=len(scored),
        correct=sum(each.grade.correct for each in scored),
    )


def compat_scored(
    questions: Mapping[str, Mapping[str, Any]], answers: Sequence[Answer]
) -> list[Scored]:
    """Records graded as the public grader does: unknown ids skipped, duplicates all counted.

    Args:
        questions: JSON objects of the dataset by id.
        answers: records in file order.
    """
    return [
        Scored(
            answer.question_id,
            compat.grade(questions[answer.question_id], answer.response),
            str(questions[answer.question_id]["type"]),
        )
        for answer in answers
        if answer.question_id in questions
    ]


def _guessed(grade: Grade) -> str:
    return "short_answer" if grade.per_criterion else "multiple_choice"


def _mean(shares: Sequence[float]) -> float:
    return sum(shares) / len(shares) if shares else 0.0
