"""`deerflow exam run` on the terminal, with a scripted model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.examinees import write_dataset
from fakes.terminal import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.close()


def said(answer: str) -> dict[str, str]:
    return {"text": json.dumps({"reasoning": "counted", "response": answer, "confidence": 0.9})}


def test_an_exam_is_sat_and_told(desk: Desk, tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "questions.json", 2)
    desk.write([said("B"), said("B"), said("1"), said("1")])
    command = ("exam", "run", "--dataset", str(dataset), "--out", "exam", "--workers", "1")
    done = desk.run(*command)
    assert done.code == 0, done.err
    assert "2 of 2 answers accepted." in done.out
    assert "[2/2] english-002: accepted" in done.err
    found = json.loads((desk.folder / "exam" / "results.json").read_text("utf-8"))
    assert [answer["response"] for answer in found["results"]] == ["B", "1"]
    again = desk.run(*command)  # nothing is asked again: the script would begin anew
    assert again.code == 0
    assert json.loads((desk.folder / "exam" / "results.json").read_text("utf-8")) == found
    graded = desk.run("exam", "grade", "--result", "exam/results.json", "--dataset", str(dataset))
    assert "overall=100.0% (2 questions)" in graded.out


def test_other_settings_are_refused(desk: Desk, tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "questions.json", 1)
    desk.write([said("B"), said("B")])
    command = ("exam", "run", "--dataset", str(dataset), "--out", "exam")
    assert desk.run(*command).code == 0
    refused = desk.run(*command, "--arm", "A2")
    assert refused.code == 2
    assert "other settings: arm" in refused.err


def test_the_own_dataset_is_the_default(desk: Desk) -> None:
    desk.write([said("B")] * 4)
    done = desk.run("exam", "run", "--out", "exam", "--limit", "2", "--arm", "A0")
    assert done.code == 0, done.err
    assert "unvalidated: 2" in done.out


def test_a_simulation_is_compared(desk: Desk) -> None:
    done = desk.run("exam", "simulate", "--out", "sim", "--questions", "16", "--repeat", "1")
    assert done.code == 0, done.err
    assert "deerflow A5 over deerflow A0" in done.out
    (page,) = (desk.folder / "sim").glob("comparison-*.html")
    assert "A5" in page.read_text("utf-8")
