"""Roles that answer from a script, and checks that answer from a table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deerflow.errors import LimitError, ModelError
from deerflow.models.usage import Tokens
from deerflow.verify.messages import CheckOutcome, CheckResult, Problem
from deerflow.verify.protocol import Ask, Reply, Step

Line = str | Exception


class ScriptedRoles:
    """Answers each step from its own list; asked for more, the test fails.

    Args:
        script: replies, or what is raised, by step in order.
        broken: what every ask from number `at` on raises; 0 for none.
    """

    def __init__(
        self, script: Mapping[Step, Sequence[Line]], *, broken: Exception | None = None, at: int = 0
    ) -> None:
        self._script = {step: list(lines) for step, lines in script.items()}
        self._broken, self._at = broken, at
        self.asks: list[Ask] = []

    async def ask(self, ask: Ask) -> Reply:
        self.asks.append(ask)
        if self._broken is not None and len(self.asks) >= self._at > 0:
            raise self._broken
        lines = self._script.get(ask.step, [])
        if not lines:
            raise AssertionError(f"nobody expected {ask.role}/{ask.step}/{ask.attempt}")
        line = lines.pop(0)
        if isinstance(line, Exception):
            raise line
        return Reply(line, Tokens(calls=1, input=10, output=2), latency_ms=7)

    @property
    def steps(self) -> list[str]:
        """What was asked, in order."""
        return [ask.step for ask in self.asks]

    def prompts(self, step: Step) -> list[str]:
        """What was shown at a step."""
        return [ask.prompt for ask in self.asks if ask.step == step]

    @property
    def left(self) -> dict[str, int]:
        """Lines that nobody asked for."""
        return {step: len(lines) for step, lines in self._script.items() if lines}


class TableChecker:
    """Checks by a table from response to result; what is not in it is not applicable."""

    def __init__(self, table: Mapping[str, CheckResult]) -> None:
        self._table = table
        self.checked: list[str] = []

    async def check(self, problem: Problem, response: str) -> CheckOutcome:
        self.checked.append(response)
        result = self._table.get(response, "not_applicable")
        return CheckOutcome(result, f"code says {result}", "table", seconds=0.25)


def answered(response: str, reasoning: str = "", confidence: float | None = None) -> str:
    """A resolver's or blind validator's reply."""
    found: dict[str, Any] = {"reasoning": reasoning, "response": response}
    if confidence is not None:
        found["confidence"] = confidence
    return json.dumps(found, ensure_ascii=False)


def judged(accepted: object, checked: str = "", feedback: str = "") -> str:
    """A validator's verdict."""
    return json.dumps(
        {"checked_answer": checked, "accepted": accepted, "feedback": feedback}, ensure_ascii=False
    )


def chosen(choice: object) -> str:
    """An adjudicator's choice."""
    return json.dumps({"reason": "worked out", "choice": choice})


def no_model() -> ModelError:
    return ModelError("The endpoint is gone.", model="scripted")


def no_budget() -> LimitError:
    return LimitError("The budget is used up.", rule="tokens", used=10, limit=10)
