"""Lines of code and times of exams: read from results, ours from the journal beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deerflow import __version__
from deerflow.exam.contract import ResultFile, read_results
from deerflow.exam.effort import Effort, effort, middle
from fakes.examinees import plan, sat, write_dataset
from fakes.exams import KEYS, result_file


def theirs(**config: Any) -> ResultFile:
    return result_file(KEYS, framework="langgraph", config=config)


def test_a_framework_tells_it_in_its_results(tmp_path: Path) -> None:
    one = theirs(lines_of_code=40, wall_ms=1500, workers=2)
    assert effort([one], tmp_path) == Effort(40, 1.5, 2)
    assert effort([one, one], tmp_path).seconds == 3.0
    assert effort([one, theirs(lines_of_code=40)], tmp_path) == Effort(40, None, 2)


@pytest.mark.parametrize("wrong", ["40", -1, None, True, float("nan"), [1]])
def test_what_is_no_number_is_not_told(tmp_path: Path, wrong: object) -> None:
    file = theirs(lines_of_code=wrong, wall_ms=wrong, workers=wrong)
    assert effort([file], tmp_path) == Effort()


async def test_ours_has_its_time_in_the_journal(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "questions.json")
    done = await sat(plan(tmp_path / "out", dataset, workers=3))
    file = read_results(done.results[0])
    took = effort([file], tmp_path / "out")
    assert took.lines and took.seconds and took.workers == 3
    assert "wall_ms" not in file.config
    assert effort([file], done.results[0]) == Effort(took.lines, None, None)
    other = file.model_copy(update={"config": {**file.config, "version": f"{__version__}.1"}})
    assert effort([other], tmp_path / "out").lines is None


async def test_an_exam_of_two_processes_tells_no_time(tmp_path: Path) -> None:
    """The pause between them is nobody's time."""
    dataset = write_dataset(tmp_path / "questions.json")
    exam = plan(tmp_path / "out", dataset)
    await sat(exam)
    journal = tmp_path / "out" / "journal.jsonl"
    lines = journal.read_text("utf-8").splitlines(keepends=True)
    journal.write_text("".join(lines[: len(lines) // 2]), "utf-8")
    done = await sat(exam)
    assert json.loads(journal.read_text("utf-8").splitlines()[-1])["type"] == "finished"
    assert effort([read_results(done.results[0])], tmp_path / "out").seconds is None


def test_the_middle() -> None:
    assert middle([3000, 1000, 2000]) == 2.0
    assert middle([]) is None and middle([0, 0]) is None
