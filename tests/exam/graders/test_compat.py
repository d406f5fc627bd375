"""The compatible grader against every case of the benchmark, and the rules one by one."""

from __future__ import annotations

from typing import Any

import pytest

from deerflow.exam.graders.compat import grade, keywords, normalise, synonyms_of
from fakes.exams import grader_cases, letter, words

CASES = grader_cases("cases")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['case']} {case['branch']}")
def test_a_case_of_the_benchmark(case: dict[str, Any]) -> None:
    found = grade(case["question"], case["response"])
    expected = case["expected"]
    assert found.earned == pytest.approx(expected["earned"], abs=1e-9)
    assert found.normalized == pytest.approx(expected["normalized"], abs=1e-9)
    assert (found.max_points, found.correct) == (expected["max_points"], expected["correct"])
    assert found.grader == expected["grader"]
    assert [
        {"earned": each.earned, "available": each.available} for each in found.per_criterion
    ] == expected["per_criterion"]


@pytest.mark.parametrize(
    ("response", "correct"),
    [
        (" b ", True),
        ("(B) 4", True),
        ("4", False),
        ("", False),
        ("\uff22", False),
        ("The answer is B", False),
        ("Better: C", True),
        ("\u00e9B", True),
    ],
)
def test_the_first_ascii_letter_counts(response: str, correct: bool) -> None:
    found = grade(letter(key="B"), response)
    assert (found.correct, found.earned, found.per_criterion) == (correct, float(correct), ())


def rubric(*criteria: tuple[str, int], most: int = 2, notes: str = "") -> dict[str, Any]:
    listed = [{"criterion": text, "points": points} for text, points in criteria]
    scoring = {"max_points": most, "method": "rubric", "rubric": listed}
    return words(scoring=scoring, notes=notes)


def test_a_grade_is_not_cut_at_the_maximum() -> None:
    found = grade(rubric(("mentions silk", 3)), "silk")
    assert (found.earned, found.normalized, found.correct) == (3.0, 1.5, False)


def test_a_synonym_credits_every_criterion() -> None:
    question = rubric(("silk", 1), ("spice", 1), notes="see ACCEPT :\n tea ; ; !\naccept: rice")
    assert grade(question, "green TEA").earned == 2
    assert grade(question, "rice").earned == 0


def test_the_words_that_count() -> None:
    assert keywords("Mentions 3x and 2H2O, don't use it") == ["h2o", "don", "use"]
    assert keywords("correct answer 5") == []


def test_what_is_compared() -> None:
    assert normalise("  A_b\tC\u00b2 \u2192 (X^2)!") == "a b c (x^2)"
    assert list(synonyms_of("accept reordered")) == []
    assert list(synonyms_of("accept: ")) == []


def test_no_points_at_all_are_never_correct() -> None:
    question = words(scoring={"max_points": 0, "method": "exact"})
    found = grade(question, "x")
    assert (found.normalized, found.correct) == (0.0, False)
