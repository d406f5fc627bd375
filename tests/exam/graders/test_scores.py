"""Means over whole files, against the benchmark's files and baselines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deerflow.exam.contract import Answer
from deerflow.exam.graders.compat import Grade
from deerflow.exam.graders.scores import Scored, compat_scored, scores_of
from fakes.exams import answer, benchmark, grader_cases, letter, needs_benchmark, words

RESPONSES: dict[str, Callable[[str], str]] = {
    "reference-key": lambda key: key,
    "empty": lambda key: "",
    "all-A": lambda key: "A",
    "all-B": lambda key: "B",
    "all-C": lambda key: "C",
    "all-D": lambda key: "D",
    "the-answer-is": lambda key: f"The answer is {key}",
}


def compare(scored: list[Scored], expected: dict[str, Any]) -> None:
    found = scores_of(scored)
    assert found.overall == pytest.approx(expected["overall"], abs=1e-9)
    assert found.by_subject == pytest.approx(expected["by_subject"], abs=1e-9)
    assert found.by_type == pytest.approx(expected["by_type"], abs=1e-9)
    assert list(found.by_subject) == list(expected["by_subject"])
    assert found.count == expected["count"]


@pytest.mark.parametrize("case", grader_cases("file_cases"), ids=lambda case: case["name"])
def test_a_file_of_the_benchmark(case: dict[str, Any]) -> None:
    questions = {entry["id"]: entry for entry in benchmark()}
    answers = [Answer.model_validate(each) for each in case["results"]]
    compare(compat_scored(questions, answers), case["expected"])


@pytest.mark.parametrize("case", grader_cases("baselines"), ids=lambda case: case["name"])
def test_a_baseline(case: dict[str, Any]) -> None:
    questions = {entry["id"]: entry for entry in benchmark()}
    answers = [answer(q, RESPONSES[case["name"]](q["answer"])) for q in questions.values()]
    scored = compat_scored(questions, answers)
    compare(scored, case["expected"])
    full = [each for each in scored if each.grade.correct and each.kind == "short_answer"]
    assert len(full) == case["full_credit_short_answers"]


@needs_benchmark
def test_every_baseline_is_tried() -> None:
    assert {case["name"] for case in grader_cases("baselines")} == set(RESPONSES)


def test_without_types_the_criteria_tell_them() -> None:
    questions = {"math-001": letter(), "history-001": words("history-001")}
    scored = compat_scored(questions, [answer(each, "B trade") for each in questions.values()])
    untold = [Scored(each.question_id, each.grade) for each in scored]
    assert scores_of(untold) == scores_of(scored)
    assert scores_of(scored).by_type == {"multiple_choice": 1.0, "short_answer": 0.5}


def test_the_subject_ends_at_the_last_hyphen() -> None:
    whole = Grade(1, 1, 1.0, True, "exact")
    scores = scores_of([Scored("world-history-001", whole), Scored("history-002", whole)])
    assert list(scores.by_subject) == ["world-history", "history"]
    assert scores.correct == 2
