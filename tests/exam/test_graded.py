"""Files graded both ways, and what their records say of the validator."""

from __future__ import annotations

import pytest

from deerflow.errors import UsageError
from deerflow.exam.calibration import Confusion, Revisions
from deerflow.exam.contract import ResultFile
from deerflow.exam.graded import Graded, Grading, grade_file
from deerflow.exam.graders.judge import SYSTEM
from fakes.exams import KEYS, READING, SIX, answer, letter, result_file, six, told


async def graded(file: ResultFile, **other: object) -> Graded:
    return await grade_file(file, six(), Grading(READING, **other))  # type: ignore[arg-type]


async def test_both_grades_side_by_side() -> None:
    found = await graded(result_file(["The answer is B", "B", "A"]))
    assert [each.grade.normalized for each in found.compat] == [0.0, 1.0, 0.0]
    assert found.scores.overall == pytest.approx(1 / 3)
    assert found.strict_scores is not None
    assert (found.strict_scores.overall, found.strict_scores.count) == (2 / 6, 6)
    assert found.right["math-001"] and not found.right["history-002"]


@pytest.mark.parametrize("stray", [letter("math-999"), SIX[0]], ids=["unknown", "repeated"])
async def test_a_file_that_cannot_be_graded_strictly(stray: dict[str, object]) -> None:
    file = result_file(["B"])
    file = file.model_copy(update={"results": [*file.results, answer(stray, "A")]})
    found = await graded(file)
    assert str(stray["id"]) in found.refusal
    assert (found.strict, found.strict_scores) == ((), None)
    assert found.right == {each.question_id: each.grade.correct for each in found.compat}
    assert list(found.accounts) == ["math-001"]
    with pytest.raises(UsageError, match=str(stray["id"])):
        await graded(file, must_be_strict=True)


async def test_the_validator_as_a_classifier() -> None:
    states = ["accepted", "accepted", "exhausted", "exhausted", "unvalidated", "validator_error"]
    file = result_file(["B", "C", "B", "x = 13", KEYS[4], KEYS[5]], raw=[told(s) for s in states])
    found = await graded(file)
    assert found.confusion == Confusion(1, 1, 1, 1)
    assert found.confidence("stated") == [
        (0.9, ok) for ok in (True, False, True, False, True, True)
    ]
    assert found.confidence("agreement")[0] == (1.0, True)


async def test_helpful_and_harmful_revisions() -> None:
    firsts = ["C", "B", "A", "x = 12"]
    raw = [
        told("accepted", attempts=2, history=[{"step": "resolve", "response": each}])
        for each in firsts
    ]
    found = await graded(result_file(["B", "C", "C", "x = 12", "trade"], raw=[*raw, {}]))
    assert found.revisions == Revisions(helpful=1, harmful=1, idle=2)


async def test_a_judge_grades_the_words_of_both() -> None:
    asked: list[str] = []

    async def judge(system: str, prompt: str) -> str:
        asked.append(system)
        return "1"

    found = await graded(result_file(["B", "B", "B", "x = 12", "barter"]), judge=judge)
    assert asked == [""] * 4
    assert [each.grade.grader for each in found.compat] == ["exact"] * 3 + ["llm"] * 2
    assert found.strict[4].grade.grader == "criteria"
    asked.clear()
    found = await graded(result_file(["B", "B", "B", "x = 12", "barter"]), hardened=judge)
    assert asked == [SYSTEM] * 2
    assert [each.grade.grader for each in found.strict] == [
        *["exact"] * 3,
        "equivalence",
        "judge",
        "missing",
    ]


async def test_names() -> None:
    assert (await graded(result_file([], config={"arm": "A3"}))).label == "deerflow A3"
    assert (await graded(result_file([], framework="", config={"arm": 7}))).label == "(no name)"
    assert (await graded(result_file([], config={"leaky": True}))).leaky
    assert not (await graded(result_file([], config={"leaky": "yes"}))).leaky
