"""Strict grading: coverage, letters, equivalence, denials, words."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from deerflow.errors import ModelError, UsageError
from deerflow.exam.contract import Answer
from deerflow.exam.dataset import Dataset, Question, load_dataset
from deerflow.exam.graders.compat import Grade
from deerflow.exam.graders.scores import Scores, scores_of
from deerflow.exam.graders.strict import grade, strict_scored
from fakes.exams import (
    QUESTIONS,
    READING,
    answer,
    benchmark,
    dataset_file,
    letter,
    needs_benchmark,
    words,
)

TRADE = "The Silk Road promoted trade and the exchange of ideas."
PAIR = [letter("math-001", key="B"), words("history-001", key=TRADE)]


def dataset(folder: Path, questions: list[dict[str, Any]]) -> Dataset:
    return load_dataset(dataset_file(folder, questions))


async def scores(dataset: Dataset, answers: list[Answer], **other: Any) -> Scores:
    return scores_of(await strict_scored(dataset, answers, READING, **other))


def graded(question: dict[str, Any], response: str) -> Grade:
    return grade(Question.model_validate(question), response, READING)


# ---- coverage ----


async def test_a_missing_answer_is_wrong(tmp_path: Path) -> None:
    found = await strict_scored(dataset(tmp_path, PAIR), [answer(PAIR[0], "B")], READING)
    assert [(each.question_id, each.grade.grader) for each in found] == [
        ("math-001", "exact"),
        ("history-001", "missing"),
    ]
    total = scores_of(found)
    assert (total.overall, total.count, total.correct) == (0.5, 2, 1)
    assert total.by_type == {"multiple_choice": 1.0, "short_answer": 0.0}


async def test_no_answers_at_all(tmp_path: Path) -> None:
    assert await scores(dataset(tmp_path, PAIR), []) == Scores(
        0.0,
        {"math": 0.0, "history": 0.0},
        {"multiple_choice": 0.0, "short_answer": 0.0},
        2,
        0,
    )


async def test_the_order_is_that_of_the_dataset(tmp_path: Path) -> None:
    answers = [answer(each, "B") for each in reversed(PAIR)]
    found = await strict_scored(dataset(tmp_path, PAIR), answers, READING)
    assert [each.question_id for each in found] == ["math-001", "history-001"]


async def test_a_repeated_id_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="answered more than once: math-001"):
        await scores(dataset(tmp_path, PAIR), [answer(PAIR[0], "B"), answer(PAIR[0], "C")])


async def test_an_unknown_id_is_named(tmp_path: Path) -> None:
    stray = letter("math-999")
    with pytest.raises(UsageError, match="unknown question ids: math-999"):
        await scores(dataset(tmp_path, PAIR), [answer(PAIR[0], "B"), answer(stray, "B")])


# ---- letters ----


@pytest.mark.parametrize(
    ("response", "correct"),
    [
        ("B", True),
        ("Answer: B", True),
        ("The answer is B.", True),
        ("First I took A. The answer is B.", True),
        ("Answer: B. No: Answer: C", False),
        ("Answer: D", False),
        ("", False),
    ],
)
def test_the_last_declared_letter_counts(response: str, correct: bool) -> None:
    found = graded(letter(key="B"), response)
    assert (found.correct, found.normalized, found.grader) == (correct, float(correct), "exact")


# ---- equivalence ----

SAME = [
    "x = 12",
    "x=12",
    "The answer is x = 12.",
    "3x - 2x = 5 + 7, so\nx = 12",
    "First x seems to be 13. Therefore x = 12.",
    "x = 12\nI checked it by putting it in.",
    "Answer: x = 12. Check: 36 - 7 = 29.",
    "The answer is x = 13. No, wait: x = 12.",
]
OTHER = [
    "",
    "x = 13",
    "moves equals -99",
    "x is not 12",
    "x isn't 12",
    "x != 12",
    "x = 12. Therefore x = 13.",
    "The answer is not x = 12.",
    "It is not true that the answer is x = 12.",
    "x = 120",
    "The answer is x = 12. No, wait: x = 13.",
    "x = 12 or x = 13",
]


@pytest.mark.parametrize("response", SAME)
def test_the_key_in_other_words(response: str) -> None:
    found = graded(words("math-005", key="x = 12"), response)
    assert (found.earned, found.correct, found.grader) == (2.0, True, "equivalence")


@pytest.mark.parametrize("response", OTHER)
def test_a_wrong_result_earns_nothing(response: str) -> None:
    found = graded(words("math-005", key="x = 12"), response)
    assert (found.earned, found.correct, found.grader) == (0.0, False, "equivalence")


# ---- words ----


def test_words_earn_the_criteria_that_they_assert() -> None:
    question = words("history-001", key=TRADE)
    whole, half = graded(question, "trade, and exchanged ideas"), graded(question, "commerce")
    assert (whole.earned, whole.correct, whole.grader) == (2.0, True, "criteria")
    assert (half.earned, half.normalized, half.correct) == (1.0, 0.5, False)
    assert graded(question, "It did not bring trade.").earned == 0
    assert graded(question, TRADE).grader == "equivalence"


def test_points_are_cut_at_the_maximum() -> None:
    question = Question.model_validate(words("history-001", key=TRADE))
    scoring = question.scoring.model_copy(update={"max_points": 1, "method": "exact"})
    found = grade(
        question.model_copy(update={"scoring": scoring}), "trade, ideas exchange", READING
    )
    assert (found.earned, found.max_points, found.normalized) == (1.0, 1, 1.0)


async def test_a_judge_grades_words_alone(tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []

    async def judged(question: Mapping[str, Any], response: str) -> Grade:
        asked.append((question["id"], response))
        return Grade(1.0, 2, 0.5, False, "judge")

    questions = [
        *PAIR,
        words("history-002", key=TRADE),
        words("history-003", key=TRADE),
        words("math-005", key="x = 12"),
    ]
    responses = ["C", "barter", TRADE, " ", "x = 13"]
    answers = [answer(each, said) for each, said in zip(questions, responses, strict=True)]
    found = await strict_scored(dataset(tmp_path, questions), answers, READING, judged=judged)
    assert asked == [("history-001", "barter")]
    assert [each.grade.earned for each in found] == [0.0, 1.0, 2.0, 0.0, 0.0]


async def test_an_error_of_the_judge_passes_through(tmp_path: Path) -> None:
    async def judged(question: Mapping[str, Any], response: str) -> Grade:
        raise ModelError("The judge is silent.")

    with pytest.raises(ModelError):
        await scores(dataset(tmp_path, PAIR), [answer(PAIR[1], "barter")], judged=judged)


# ---- the benchmark ----


@needs_benchmark
@pytest.mark.parametrize(("said", "overall"), [("{}", 1.0), ("The answer is {}", 1.0), ("", 0.0)])
async def test_responses_made_of_the_key(said: str, overall: float) -> None:
    answers = [answer(each, said.format(each["answer"])) for each in benchmark()]
    found = await scores(load_dataset(QUESTIONS), answers)
    assert found.count == 50
    assert found.overall == overall


@needs_benchmark
@pytest.mark.parametrize(("said", "share"), [("A", 7), ("B", 10), ("C", 13), ("D", 2)])
async def test_one_letter_everywhere(said: str, share: int) -> None:
    found = await scores(load_dataset(QUESTIONS), [answer(each, said) for each in benchmark()])
    assert (found.overall, found.correct) == (share / 50, share)


STUFFED = (
    "moves equals oxygen not factor applies chance work personification effect childhood school "
    "contrast wall was have has fear meters divided change matter hydrogen river longer trade idea"
)


@needs_benchmark
async def test_a_list_of_keywords_earns_little() -> None:
    """On the public grader such a list has nearly all points of the short answers."""
    short = [each for each in benchmark() if each["type"] == "short_answer"]
    found = await scores(load_dataset(QUESTIONS), [answer(each, STUFFED) for each in short])
    assert found.by_type["short_answer"] < 0.35


def test_the_notes_accept_other_forms_of_a_value() -> None:
    question = words("math-007", key="5", notes="accept: sqrt(25); five; 5.0 units")
    assert graded(question, "sqrt(25)").correct
    assert not graded(question, "five").correct


async def test_the_keys_of_our_own_questions_are_right(own: Dataset) -> None:
    answers = [
        Answer(question_id=q.id, subject=q.subject, type=q.type, response=q.answer)
        for q in own.questions
    ]
    found = await scores(own, answers)
    assert (found.overall, found.count) == (1.0, len(own.questions))
    swapped = [
        each.model_copy(update={"response": other.response})
        for each, other in zip(answers, [*answers[1:], answers[0]], strict=True)
    ]
    assert (await scores(own, swapped)).overall < 0.2


@pytest.fixture
def own() -> Dataset:
    return load_dataset(Path(str(files("deerflow.exam").joinpath("data", "deerflow-128.json"))))
