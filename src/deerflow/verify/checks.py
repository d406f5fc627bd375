"""Checks by code: built from a question's text alone, run where nothing else of ours runs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

import orjson

from deerflow.errors import SandboxError
from deerflow.verify.answers import declared_letter
from deerflow.verify.bundle import program
from deerflow.verify.facts import Check, Question
from deerflow.verify.grammar import AnswerError
from deerflow.verify.messages import CheckOutcome, CheckResult, Problem
from deerflow.verify.notation import broken, plain, spoken
from deerflow.verify.readers import read
from deerflow.verify.recognisers import (
    algebra,
    arithmetic,
    calendar,
    chemistry,
    genetics,
    geography,
    physics,
)
from deerflow.verify.running import PythonRunner, Ran

LONGEST_QUESTION = 4_000
"""Characters; longer questions have no check."""

Recogniser = Callable[[Question], Check | None]
KINDS: Mapping[str, Recogniser] = {
    "balancing": chemistry.balancing,
    "molar_mass": chemistry.molar_mass,
    "punnett": genetics.punnett,
    "map_scale": geography.map_scale,
    "time_zone": geography.time_zone,
    "year_difference": calendar.year_difference,
    "right_triangle": arithmetic.right_triangle,
    "measured_roots": algebra.measured_roots,
    "factoring": algebra.factoring,
    "rewriting": algebra.rewriting,
    "linear_system": algebra.linear_system,
    "substitution": algebra.substitution,
    "equation": algebra.equation,
    "formula": physics.formula,
    "conversion": physics.conversion,
    "percentage": arithmetic.percentage,
    "average": arithmetic.average,
    "divisors": arithmetic.divisors,
    "evaluation": arithmetic.evaluation,
}
"""Family of questions → what recognises one; the first that does is taken."""

_OPTION = re.compile(r"\s*([A-Z])\s*[.:)、．：）]\s*(.*)", re.DOTALL)
_RESULTS: Mapping[str, CheckResult] = {
    "right": "verified",
    "wrong": "refuted",
    "unsure": "check_failed",
}


def build(problem: Problem) -> Check | None:
    """The check of a question, None when code cannot decide it; a key is never looked at."""
    if len(problem.text) > LONGEST_QUESTION or broken(problem.text):
        return None
    raw = plain(problem.text)
    text = spoken(raw)
    question = Question(text, raw, text.lower())
    for recognise in KINDS.values():
        check = recognise(question)
        if check is not None:
            return check
    return None


class CodeChecker:
    """Checks answers by the program of `verify/programs`; an implementation of Checker."""

    def __init__(self, runner: PythonRunner) -> None:
        """With what runs the program."""
        self._runner = runner

    async def check(self, problem: Problem, response: str) -> CheckOutcome:
        """See Checker."""
        started = time.monotonic()
        check = build(problem)
        if check is None:
            return CheckOutcome("not_applicable", "No check fits this question.")
        result, detail = await self._judged(problem, check, response)
        return CheckOutcome(result, detail, check.kind, time.monotonic() - started)

    async def _judged(
        self, problem: Problem, check: Check, response: str
    ) -> tuple[CheckResult, str]:
        data: dict[str, Any] = {"judge": check.judge, "facts": check.facts}
        letter = declared_letter(response) if problem.kind == "letter" else None
        try:
            data |= options(problem, check) if letter else reading(check, response)
        except AnswerError as error:
            return "check_failed", error.message
        try:
            ran = await self._runner.run(program(), orjson.dumps(data))
        except SandboxError as error:
            return "check_failed", error.message
        return _outcome(ran, letter)


def reading(check: Check, text: str) -> dict[str, Any]:
    """What the program is told of an answer in words.

    Raises:
        AnswerError: it says nothing that can be judged.
    """
    said = read(check, text)
    return {
        "candidates": said.candidates,
        "declared": said.declared,
        "hedged": said.hedged,
        "union": said.union,
    }


def options(problem: Problem, check: Check) -> dict[str, Any]:
    """What the program is told of the options; one that cannot be read is null.

    Raises:
        AnswerError: none can be read.
    """
    found: dict[str, Any] = {}
    for option in problem.options:
        match = _OPTION.fullmatch(option)
        if match is None:
            continue
        try:
            found[match[1]] = read(check, match[2]).candidates[0]
        except AnswerError:
            found[match[1]] = None
    if not any(answer is not None for answer in found.values()):
        raise AnswerError("None of the options can be checked.")
    return {"options": found}


def _outcome(ran: Ran, letter: str | None) -> tuple[CheckResult, str]:
    """What the program's last line says; anything but a plain word of it is a failed check."""
    if ran.limit:
        return "check_failed", f"The check was stopped by the {ran.limit} limit."
    said = _said(ran)
    if said is None:
        missing = "No module named 'sympy'" in ran.output
        reason = "the sandbox's Python has no sympy" if missing else "the program failed"
        return "check_failed", f"The check gave no result: {reason}."
    if letter is None:
        result = _RESULTS.get(str(said.get("verdict")), "check_failed")
        return result, str(said.get("detail", ""))
    holds = said.get("holds")
    if not isinstance(holds, list) or len(cast("list[object]", holds)) != 1:
        return "check_failed", "Not exactly one of the options agrees with the computed result."
    right = str(cast("list[object]", holds)[0])
    if right == letter:
        return "verified", f"Option {letter} agrees with the computed result."
    return "refuted", f"Option {letter} does not agree with the computed result."


def _said(ran: Ran) -> dict[str, Any] | None:
    if ran.exit_code != 0 or not ran.output.strip():
        return None
    try:
        said: object = orjson.loads(ran.output.strip().splitlines()[-1])
    except orjson.JSONDecodeError:
        return None
    return cast("dict[str, Any]", said) if isinstance(said, dict) else None
