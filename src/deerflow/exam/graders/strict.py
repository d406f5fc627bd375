"""Strict grading: every question of the dataset counts, and a wrong answer earns nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deerflow.errors import UsageError
from deerflow.exam.contract import Answer
from deerflow.exam.dataset import Dataset, Question, problem_of
from deerflow.exam.graders.claims import claims_value, claims_words, is_formula
from deerflow.exam.graders.compat import CriterionGrade, Grade, GraderName, synonyms_of
from deerflow.exam.graders.scores import Scored
from deerflow.exam.graders.wording import Wording
from deerflow.verify.messages import Problem


@dataclass(frozen=True, slots=True)
class Reading:
    """How answers are read.

    Attributes:
        agree: whether two answers to a problem are the same.
        declared_letter: the last letter that a text declares as its answer.
    """

    agree: Callable[[Problem, str, str], bool]
    declared_letter: Callable[[str], str | None]


Judged = Callable[[Mapping[str, Any], str], Awaitable[Grade]]
"""Grades an answer in words: the question's JSON object and the response."""


def check_ids(dataset: Dataset, answers: Sequence[Answer]) -> None:
    """Refuse records that the dataset does not know, and questions answered twice.

    Raises:
        UsageError: names them.
    """
    counts = Counter(answer.question_id for answer in answers)
    unknown = [name for name in counts if name not in set(dataset.ids)]
    twice = [name for name, number in counts.items() if number > 1]
    problems = [
        *([f"unknown question ids: {_some(unknown)}"] if unknown else []),
        *([f"answered more than once: {_some(twice)}"] if twice else []),
    ]
    if problems:
        raise UsageError(
            f"The result file cannot be graded strictly: {'; '.join(problems)}.",
            cure="Give the file that belongs to the dataset, with one answer for each question.",
        )


async def strict_scored(
    dataset: Dataset,
    answers: Sequence[Answer],
    reading: Reading,
    *,
    judged: Judged | None = None,
) -> list[Scored]:
    """A grade for each question of the dataset, in its order; a missing answer earns nothing.

    Args:
        dataset: the questions.
        answers: records, in any order.
        reading: how answers are compared.
        judged: grades answers in words that are not the key's; None does it by their wording.

    Raises:
        UsageError: an unknown or a repeated question id.
        ModelError: of `judged`.
    """
    check_ids(dataset, answers)
    given = {answer.question_id: answer for answer in answers}
    scored: list[Scored] = []
    for question in dataset.questions:
        answer = given.get(question.id)
        if answer is None:
            found = _whole(question, False, "missing")
        else:
            found = grade(question, answer.response, reading)
            if judged is not None and found.grader == "criteria" and answer.response.strip():
                record = question.model_dump(mode="json", exclude_none=True)
                found = await judged(record, answer.response)
        scored.append(Scored(question.id, found, question.type))
    return scored


def grade(question: Question, response: str, reading: Reading) -> Grade:
    """Grade a response strictly, without a model.

    A letter must be the last one declared. A short answer earns everything when what it claims
    last is equivalent to the key; when the key is a calculation's, nothing otherwise; when it is
    in words, the points of the criteria that the response asserts.
    """
    if question.answer_type == "letter":
        return _whole(question, reading.declared_letter(response) == question.answer, "exact")
    if equivalent(question, response, reading):
        return _whole(question, True, "equivalence")
    if is_formula(question.answer) or not question.scoring.rubric:
        return _whole(question, False, "equivalence")
    wording = Wording(response, question.notes)
    grades = tuple(
        CriterionGrade(each.points if wording.meets(each.criterion) else 0, each.points)
        for each in question.scoring.rubric
    )
    most = question.scoring.max_points
    earned = float(min(most, sum(each.earned for each in grades)))
    return Grade(earned, most, earned / most, earned == most, "criteria", grades)


def equivalent(question: Question, response: str, reading: Reading) -> bool:
    """Whether what a response claims last is the key, said in another way or the same.

    Keys of calculations are compared by value, also in the forms that the notes accept; keys in
    words by their words.
    """
    if not is_formula(question.answer):
        return claims_words(response, question.answer)
    problem = problem_of(question)

    def same(one: str, other: str) -> bool:
        return reading.agree(problem, one, other)

    keys = [question.answer, *filter(is_formula, synonyms_of(question.notes))]
    return any(claims_value(question.question, response, key, same) for key in keys)


def _whole(question: Question, correct: bool, grader: GraderName) -> Grade:
    most = question.scoring.max_points
    return Grade(float(most) if correct else 0.0, most, float(correct), correct, grader)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(name[:40] for name in names[:10])
    return shown + (f" and {len(names) - 10} more" if len(names) > 10 else "")
