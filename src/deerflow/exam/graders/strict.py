"""Strict grading: every question of the dataset counts, and a wrong answer earns nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deerflow.errors import UsageError
from deerflow.exam.contract import Answer
from deerflow.exam.dataset import Dataset, Question, problem_of
from deerflow.exam.graders.compat import CriterionGrade, Grade, GraderName
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

_DECLARED = re.compile(
    r"\b(?:final\s+)?(?:answer|result|solution)\s*(?:is|are|=|:)\s*|答案\s*(?:是|为|：|:)\s*",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?;。！？；])\s+|\n+|(?<=[。！？；])")
_LINKED = re.compile(
    r"^(?:(?:so|thus|hence|therefore|then|and|we get|no|wait|actually|sorry|correction)\b[,:\s]*"
    r"|(?:所以|因此|更正)[，,：:\s]*)+",
    re.IGNORECASE,
)
_IS = re.compile(r"\bis\s+|(?<![!<>≠=])=(?!=)|是|为")
_DENIED = re.compile(
    r"\b(?:not|never|cannot|neither)\b|n['’]t\b|≠|!=|不是|并非|不等于", re.IGNORECASE
)
_RETRACTED = re.compile(
    r"\b(?:no|wait|actually|correction|sorry|oops|rather|instead)\b|不对|更正|应该是", re.IGNORECASE
)
_WORD = re.compile(r"[A-Za-z]{3,}")
_OF_FORMULAS = frozenset("sqrt sin cos tan log exp and mol".split())
_WORDS_OF_FORMULA = 2
"""Words beside its numbers that the key of a calculation may hold: units and the like."""


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
    """Whether what a response claims last is the key, said in another way or the same."""
    problem = problem_of(question)
    denies = _DENIED.search(question.answer) is not None
    return any(
        reading.agree(problem, claim, question.answer)
        for claim in claims(response)
        if denies or not _DENIED.search(claim)
    )


def claims(response: str) -> list[str]:
    """Texts that may be the answer of a response: all of it, and its last statement."""
    text = response.strip()
    if not text:
        return []
    found = [text]
    declared = list(_DECLARED.finditer(text))
    if not declared:
        return _distinct([*found, *_said(_last(text))])
    if _DENIED.search(_SENTENCE.split(text[: declared[-1].start()])[-1]):
        return found
    rest = text[declared[-1].end() :]
    first, *later = _SENTENCE.split(rest, maxsplit=1)
    if later and _RETRACTED.search(later[0]):
        return _distinct([*found, *_said(_last(later[0]))])
    return _distinct([*found, rest, *_said(first)])


def _last(text: str) -> str:
    """The last sentence, of those with a number where there are any."""
    sentences = [part for part in _SENTENCE.split(text) if part.strip()] or [text]
    numbered = [part for part in sentences if any(sign.isdigit() for sign in part)]
    return (numbered or sentences)[-1]


def _said(sentence: str) -> list[str]:
    """A sentence without what leads to it, without its full stop, and what it says something is."""
    plain = _LINKED.sub("", sentence.strip()).strip(" *$`")
    tail = "" if _DENIED.search(plain) else _IS.split(plain)[-1]
    return [plain, plain.rstrip(".。!"), tail.strip(" .。")]


def _distinct(texts: Sequence[str]) -> list[str]:
    return [text for text in dict.fromkeys(texts) if text]


def is_formula(key: str) -> bool:
    """Whether a key is a calculation's: numbers with hardly a word."""
    words = [word for word in _WORD.findall(key) if word.lower() not in _OF_FORMULAS]
    return any(sign.isdigit() for sign in key) and len(words) <= _WORDS_OF_FORMULA


def _whole(question: Question, correct: bool, grader: GraderName) -> Grade:
    most = question.scoring.max_points
    return Grade(float(most) if correct else 0.0, most, float(correct), correct, grader)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(name[:40] for name in names[:10])
    return shown + (f" and {len(names) - 10} more" if len(names) > 10 else "")
