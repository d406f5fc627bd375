"""The public exam benchmark, where it lies beside the repository, and small datasets of our own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deerflow.exam.contract import Answer, ResultFile
from deerflow.exam.dataset import Dataset, Question
from deerflow.exam.graders.strict import Reading
from deerflow.verify.answers import agree, declared_letter

FOLDER = Path(__file__).parents[3] / "shared" / "exam"
QUESTIONS = FOLDER / "questions.json"

needs_benchmark = pytest.mark.skipif(
    not QUESTIONS.is_file(), reason="the benchmark's files are not beside the repository"
)


def grader_cases(part: str) -> list[Any]:
    """Cases of one part of the benchmark's file; none where it is not there."""
    file = FOLDER / "grader_cases.json"
    return json.loads(file.read_text(encoding="utf-8"))[part] if file.is_file() else []


def benchmark() -> list[dict[str, Any]]:
    """The benchmark's questions as JSON objects; none where they are not there."""
    return json.loads(QUESTIONS.read_text(encoding="utf-8")) if QUESTIONS.is_file() else []


def letter(ident: str = "math-001", key: str = "B", **other: Any) -> dict[str, Any]:
    """A multiple-choice question as JSON."""
    return {
        "id": ident,
        "subject": ident.rpartition("-")[0],
        "type": "multiple_choice",
        "question": "What is 2 + 2?",
        "options": ["A. 3", "B. 4", "C. 5", "D. 6"],
        "answer": key,
        "answer_type": "letter",
        "scoring": {"max_points": 1, "method": "exact"},
        "source": "own",
        "difficulty": "easy",
        "notes": "",
        **other,
    }


def words(ident: str = "biology-001", key: str = "x = 12", **other: Any) -> dict[str, Any]:
    """A short-answer question as JSON, with two criteria of one point."""
    rubric = [
        {"criterion": "mentions trade or commerce", "points": 1},
        {"criterion": "mentions the exchange of ideas", "points": 1},
    ]
    return {
        "id": ident,
        "subject": ident.rpartition("-")[0],
        "type": "short_answer",
        "question": "Say it.",
        "answer": key,
        "answer_type": "text",
        "scoring": {"max_points": 2, "method": "rubric", "rubric": rubric},
        "source": "own",
        "difficulty": "easy",
        "notes": "",
        **other,
    }


def answer(question: dict[str, Any], response: str, **other: Any) -> Answer:
    """A record that answers a question."""
    return Answer(
        question_id=question["id"],
        subject=question["subject"],
        type=question["type"],
        response=response,
        **other,
    )


def dataset_file(folder: Path, questions: list[dict[str, Any]]) -> Path:
    """A dataset written into a folder."""
    path = folder / "questions.json"
    path.write_text(json.dumps(questions, ensure_ascii=False), encoding="utf-8")
    return path


READING = Reading(agree, declared_letter)


SIX = [
    letter("math-001"),
    letter("math-002"),
    letter("physics-001"),
    words("math-005", key="x = 12"),
    words("history-001", key="It brought trade and the exchange of ideas."),
    words("history-002", key="It brought trade and the exchange of ideas."),
]
"""A small dataset; its keys are B, B, B, x = 12 and words."""
KEYS = ["B", "B", "B", "x = 12", SIX[4]["answer"], SIX[5]["answer"]]


def told(state: str, **other: Any) -> dict[str, Any]:
    """What `raw` of an answer tells."""
    tokens = {"calls": 1, "input": 90, "output": 10, "cached": 30, "cost": {"USD": 0.02}}
    return {
        "state": state,
        "accepted": state == "accepted",
        "attempts": 1,
        "tokens": {"resolver": tokens, "validator": tokens},
        "confidence": {"stated": 0.9, "agreement": 1.0},
        **other,
    }


def result_file(
    responses: list[str], *, raw: list[dict[str, Any]] | None = None, **other: Any
) -> ResultFile:
    """Answers to the first questions of SIX."""
    raws = raw or [{} for _ in responses]
    answers = [
        answer(question, said, raw=each, latency_ms=1000)
        for question, said, each in zip(SIX, responses, raws, strict=False)
    ]
    given: dict[str, Any] = {
        "framework": "deerflow",
        "model": "m",
        "generated_at": "2026-01-01T00:00:00Z",
        "results": answers,
    }
    return ResultFile(**{**given, **other})


def six() -> Dataset:
    """SIX as a dataset."""
    return Dataset(tuple(Question.model_validate(each) for each in SIX), "sha-of-six")
