"""`deerflow run --goal` and `/goal` as a process: one run, one closing line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.terminal import Desk

GOAL = "Both steps are done"


def judged(kind: str, reason: str) -> dict[str, Any]:
    return {"text": json.dumps({"verdict": kind, "reason": reason})}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.close()


def test_a_goal_is_pursued_and_told_in_one_line(desk: Desk) -> None:
    script = [{"text": "One."}, judged("continue", "Two is missing."), {"text": "Two."}]
    desk.write([*script, judged("done", "Both were shown.")])
    ended = desk.run("run", "--goal", GOAL, "--thread", "t")
    assert (ended.code, ended.out) == (0, "Two.\n")
    line = f"Goal reached (1 of 8 continuations): {GOAL}. Both were shown."
    assert ended.err.splitlines()[-1] == line


def test_the_command_costs_nothing_and_the_goal_waits_for_the_next_task(desk: Desk) -> None:
    desk.write([{"text": "One."}, judged("blocked", "The key is missing.")])
    made = desk.run("run", f"/goal {GOAL}", "--thread", "t")
    worked = desk.run("run", "Begin", "--thread", "t")
    cleared = desk.run("run", "/goal clear", "--thread", "t")
    assert (made.code, worked.code, cleared.code) == (0, 0, 0)
    assert made.out.startswith(f"Goal set: {GOAL}")
    assert worked.err.splitlines()[-1].startswith("Goal blocked (0 of 8")
    assert cleared.out == f"Goal cleared: {GOAL}\n"
    assert "Goal" not in cleared.err


def test_an_empty_goal_is_refused_with_its_cure(desk: Desk) -> None:
    desk.write([])
    ended = desk.run("run", "Begin", "--goal", " ")
    assert ended.code == 2
    assert "The goal is empty." in ended.err
