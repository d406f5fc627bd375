"""A reply that has the form of its ask can be read, and cannot go on for ever."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from deerflow.verify.forms import RESPONSE, form
from deerflow.verify.messages import Problem
from deerflow.verify.protocol import Ask, RoleName, Step
from deerflow.verify.reading import read_choice, read_resolution, read_verdict

LETTER = Problem("q", "Which?", "letter", ("A. one", "B. two"))
TEXT = Problem("q", "How many?")


def schema(step: Step, problem: Problem = TEXT, role: RoleName = "validator") -> dict[str, Any]:
    found = form(Ask(problem, role, step, 1, "", ""))
    assert found is not None
    Draft202012Validator.check_schema(found)
    return found


def fits(found: dict[str, Any], reply: dict[str, Any]) -> bool:
    return Draft202012Validator(found).is_valid(reply)


@pytest.mark.parametrize("step", ["resolve", "self_check", "blind", "sample"])
def test_answers(step: Step) -> None:
    reply = {"reasoning": "counted", "response": "12", "confidence": 0.9}
    assert fits(schema(step), reply)
    read = read_resolution(json.dumps(reply))
    assert (read.response, read.reasoning, read.confidence) == ("12", "counted", 0.9)
    assert not fits(schema(step), {**reply, "response": ""})
    assert not fits(schema(step), {**reply, "response": "1" * (RESPONSE + 1)})
    assert not fits(schema(step), {"response": "12"})


@pytest.mark.parametrize("step", ["resolve", "blind"])
def test_a_letter_is_one_of_the_options(step: Step) -> None:
    reply = {"reasoning": "", "response": "B", "confidence": 0.5}
    assert fits(schema(step, LETTER), reply)
    assert not fits(schema(step, LETTER), {**reply, "response": "C"})
    assert not fits(schema(step, LETTER), {**reply, "response": "two"})


def test_verdicts() -> None:
    reply = {"checked_answer": "B", "accepted": False, "feedback": "Count."}
    assert fits(schema("review", LETTER), reply)
    assert not read_verdict(json.dumps(reply)).accepted
    assert not fits(schema("review", LETTER), {**reply, "accepted": "false"})
    assert not fits(schema("review", LETTER), {**reply, "checked_answer": "C"})


def test_choices() -> None:
    found = schema("adjudicate", role="adjudicator")
    assert fits(found, {"reason": "", "choice": 2}) and read_choice('{"choice": 2}') == 2
    assert not fits(found, {"reason": "", "choice": 3})


def test_the_reader_of_a_second_reply_is_not_known() -> None:
    assert form(Ask(TEXT, "validator", "reask", 1, "", "")) is None
