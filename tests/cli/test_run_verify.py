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


TURNS = [
    says("43", when="^What is six"),
    says(answered("42"), when="(?s)^# Question(?!.*# Your own answer)"),
    says(judged(False, "42", "Off by one."), when="(?s)# Your own answer.*43"),
    says("44", when="(?s)^Somebody who answered.*Off by one"),
    says(judged(False, "42", "Off by two."), when="(?s)# Your own answer.*44"),
    says("42", when="(?s)^Somebody who answered.*Off by two"),
]
"""Each is told by what it answers, so that a new process is told the same."""


def test_killed_before_a_reply_it_goes_on_and_ends_the_same(desk: Desk) -> None:
    desk.write([{**turn, "times": 2, "delay_ms": 300} for turn in TURNS])
    whole = desk.run("run", "--verify", "--json", "--thread", "whole", TASK)
    events = [json.loads(line) for line in whole.out.splitlines()]
    assert events[-1]["payload"]["outcome"]["verification"]["attempts"] == 3
    types = [event["type"] for event in events]
    begun = [place for place, type in enumerate(types) if type == "task_started"]
    sent = [place for place, type in enumerate(types) if type == "message"]
    for place in (begun[0], sent[2], begun[2]):  # blind, sent back, second look
        thread = f"killed-{place}"
        process = desk.start("run", "--verify", "--json", "--thread", thread, TASK)
        assert process.stdout is not None
        for _ in range(place + 1):
            process.stdout.readline()
        process.kill()
        process.communicate()
        ended = desk.run("run", "--thread", thread, "--resume", "--json")
        assert ended.code == 0, ended.err
        last = json.loads(ended.out.splitlines()[-1])["payload"]
        shown = desk.run("threads", "show", thread, "--json")
        log = [json.loads(line) for line in shown.out.splitlines()]
        told = [event["payload"] for event in log if event["type"] == "verification"]
        assert told == [last["outcome"]["verification"]]
        assert told[0]["state"] == "accepted" and told[0]["attempts"] == 3
        texts = [e["payload"]["message"]["content"] for e in log if e["type"] == "message"]
        assert [text for text in texts if text in ("43", "44", "42")] == ["43", "44", "42"]
        assert last["usage"]["total"]["calls"] == len(TURNS)
