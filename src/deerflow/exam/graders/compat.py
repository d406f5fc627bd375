"""The public benchmark's own grading, reproduced with all its oddities so that scores compare.

Letters are the first ASCII letter of the response, rubrics are matched by any one keyword. It says
how a response is worded rather than whether it is right; `strict` stands beside it for that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

GraderName = Literal["exact", "rubric", "llm", "equivalence", "criteria", "judge", "missing"]


@dataclass(frozen=True, slots=True)
class CriterionGrade:
    """Points of one criterion: earned, and to be had."""

    earned: float
    available: int


@dataclass(frozen=True, slots=True)
class Grade:
    """What a response is worth.

    Attributes:
        earned: points.
        max_points: points to be had.
        normalized: their quotient; may pass 1 where the rubric is worth more than the maximum.
        correct: all points were earned, no more.
        grader: which grader graded it.
        per_criterion: in the rubric's order, empty without one.
        note: one sentence for people, where the grader has something to say.
    """

    earned: float
    max_points: int
    normalized: float
    correct: bool
    grader: GraderName
    per_criterion: tuple[CriterionGrade, ...] = ()
    note: str = ""


_LETTER = re.compile(r"[A-Za-z]")
_NOT_KEPT = re.compile(r"[^a-z0-9+\-^/=(). ]")
_WORD = re.compile(r"[a-z][a-z0-9]*")
_ACCEPT = re.compile(r"accept\s*:\s*(.+)", re.IGNORECASE)
_STOP_WORDS = frozenset(
    "the a an to of and or in is are for with on at by it this that its be as from side other "
    "one correct final answer mentions states uses value unit".split()
)
_SHORTEST = 3


def grade(question: Mapping[str, Any], response: str) -> Grade:
    """Grade a response without a model.

    Args:
        question: the JSON object of the dataset; only `answer`, `answer_type`, `scoring` and
            `notes` have an effect, and `answer_type` alone chooses the grader.
        response: the graded text.
    """
    if question["answer_type"] == "letter":
        return exact(question, response)
    return rubric(question, response)


def exact(question: Mapping[str, Any], response: str) -> Grade:
    """All points when the first ASCII letter of the response is the key."""
    expected = str(question["answer"]).strip().upper()
    found = _LETTER.search(response)
    correct = found is not None and found[0].upper() == expected
    points = int(question["scoring"]["max_points"])
    earned = float(points) if correct else 0.0
    return Grade(earned, points, _share(earned, points), correct, "exact")


def rubric(question: Mapping[str, Any], response: str) -> Grade:
    """The points of every criterion of which any keyword, or a synonym, is in the response."""
    text = normalise(response)
    synonyms = list(synonyms_of(str(question.get("notes") or "")))
    grades = tuple(
        CriterionGrade(points if _matched(criterion, text, synonyms) else 0, points)
        for criterion, points in criteria(question)
    )
    return summed(question, grades, "rubric")


def summed(
    question: Mapping[str, Any],
    grades: tuple[CriterionGrade, ...],
    grader: GraderName,
    note: str = "",
) -> Grade:
    """The grade that the points of the criteria come to."""
    points = int(question["scoring"]["max_points"])
    earned = float(sum(each.earned for each in grades))
    correct = points > 0 and earned == points
    return Grade(earned, points, _share(earned, points), correct, grader, grades, note)


def criteria(question: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Criteria and their points; none without a rubric."""
    for each in question["scoring"].get("rubric") or ():
        yield str(each["criterion"]), int(each["points"])


def normalise(text: str) -> str:
    """Lower case, what the rubric does not know as spaces, white space as one space."""
    return " ".join(_NOT_KEPT.sub(" ", text.lower()).split())


def keywords(criterion: str) -> list[str]:
    """Words of a criterion that say something, by the benchmark's list."""
    found = _WORD.findall(criterion.lower())
    return [word for word in found if len(word) >= _SHORTEST and word not in _STOP_WORDS]


def synonyms_of(notes: str) -> Iterator[str]:
    """What the first `accept:` of the notes allows, as written."""
    found = _ACCEPT.search(notes)
    for part in found[1].split(";") if found else ():
        if part.strip():
            yield part.strip()


def _matched(criterion: str, text: str, synonyms: Sequence[str]) -> bool:
    words = keywords(criterion)
    if words and any(word in text for word in words):
        return True
    phrases = [*([] if words else [criterion]), *synonyms]
    return any(phrase and phrase in text for phrase in map(normalise, phrases))


def _share(earned: float, points: int) -> float:
    return earned / points if points else 0.0
