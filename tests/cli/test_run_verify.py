"""`deerflow run --verify` as a process: one line below the answer, an event, and a kill."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.roles import answered, judged
from fakes.terminal import Desk

TASK = "What is six times seven?"


def says(text: str, **more: Any) -> dict[str, Any]:
    return {"text": text, **more}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.close()


def test_a_shared_answer_is_told_in_one_line(desk: Desk) -> None:
    desk.write([says("42"), says(answered("42"))])
    ended = desk.run("run", "--verify", TASK)
    assert (ended.code, ended.out) == (0, "42\n")
    line = "Verified: an independent examiner came to the same result."
    assert ended.err.splitlines()[-1] == line


def test_an_answer_that_is_not_shared_is_given_and_told(desk: Desk) -> None:
    script = [says("43"), says(answered("42")), says(judged(False, "42", "no")), says("43")]
    desk.write(script)
    ended = desk.run("run", "--verify", "--json", TASK)
    assert ended.code == 0
    events = [json.loads(line) for line in ended.out.splitlines()]
    (told,) = [event["payload"] for event in events if event["type"] == "verification"]
    assert (told["state"], told["accepted"], told["validator_answer"]) == ("exhausted", False, "42")
    assert events[-1]["payload"]["outcome"]["verification"] == told
    assert ended.err.splitlines()[-1].startswith("Not verified: an independent examiner came to")


def test_without_the_option_nobody_is_asked(desk: Desk) -> None:
    desk.write([says("43")])
    ended = desk.run("run", TASK)
    assert (ended.code, ended.out) == (0, "43\n")
    assert "erified" not in ended.err
