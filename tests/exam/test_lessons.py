"""What one exam taught is told in the next one, where that is wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deerflow.exam.dataset import load_dataset, problem_of
from deerflow.exam.guidance import Guidance
from deerflow.exam.lessons import MOST, lessons_of, remember
from deerflow.verify.messages import QuestionStatus
from fakes.examinees import plan, sat, write_dataset
from fakes.harness import scripted_harness


def status(id: str, *, accepted: bool = True, attempts: int = 2, **raw: Any) -> QuestionStatus:
    state = "accepted" if accepted else "exhausted"
    history = [{"step": "review", "feedback": "Mind the sign."}]
    return QuestionStatus(id, "7", accepted, attempts, "7", state, raw={"history": history, **raw})


async def test_a_corrected_answer_is_a_lesson_for_its_subject(tmp_path: Path) -> None:
    questions = load_dataset(write_dataset(tmp_path / "q.json", 4)).questions
    statuses = [
        status(questions[0].id),
        status(questions[1].id, attempts=1),
        status(questions[2].id, accepted=False),
        status(questions[3].id, history=[]),
    ]
    async with scripted_harness([], tmp_path) as harness:
        memory = harness.memory
        assert memory is not None
        assert await remember(memory, "ann", questions, statuses) == 1
        lessons = await lessons_of(memory, "ann")
        assert await lessons_of(memory, "bob") == {}
    assert lessons == {"math": (f"Mind the sign. [{questions[0].question} → 7]",)}
    told = Guidance(lessons)(problem_of(questions[0]), "resolver")
    assert "Mind the sign." in told
    assert "Mind the sign." not in Guidance(lessons)(problem_of(questions[0]), "validator")
    assert "Mind the sign." not in Guidance(lessons)(problem_of(questions[1]), "resolver")


async def test_only_the_newest_lessons_are_told(tmp_path: Path) -> None:
    questions = load_dataset(write_dataset(tmp_path / "q.json", 40)).questions
    math = [question for question in questions if question.subject == "math"]
    async with scripted_harness([], tmp_path) as harness:
        assert harness.memory is not None
        statuses = [status(question.id) for question in math]
        assert await remember(harness.memory, "ann", math, statuses) == len(math) > MOST
        assert len((await lessons_of(harness.memory, "ann"))["math"]) == MOST


async def test_an_exam_with_lessons_is_another_exam(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "q.json", 1)
    done = await sat(plan(tmp_path / "out", dataset, lessons={"math": ("Mind the sign.",)}))
    assert "Mind the sign." in done.results[0].read_text("utf-8")
