"""Roles that answer from a script and checks that answer from a table: tests need no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deerflow.errors import UsageError
from deerflow.models.usage import Tokens
from deerflow.verify.messages import CheckOutcome, CheckResult, Problem
from deerflow.verify.protocol import Ask, Reply, Step

Line = str | Exception
"""What a role replies, or what is raised."""


class ScriptedRoles:
    """Answers each step from a list of its own; an `Asker`.

    Args:
        script: lines by step, in order.
        broken: raised by every ask from number `at` on; None for none.
        at: from 1.
    """

    def __init__(
        self, script: Mapping[Step, Sequence[Line]], *, broken: Exception | None = None, at: int = 0
    ) -> None:
        self._script = {step: list(lines) for step, lines in script.items()}
        self._broken, self._at = broken, at
        self.asks: list[Ask] = []
        """Everything that was asked, in order."""

    async def ask(self, ask: Ask) -> Reply:
        """See `Asker`.

        Raises:
            UsageError: the script has no line left for the step.
        """
        self.asks.append(ask)
        if self._broken is not None and len(self.asks) >= self._at > 0:
            raise self._broken
        lines = self._script.get(ask.step, [])
        if not lines:
            raise UsageError(f"The script has no line for {ask.role}/{ask.step}/{ask.attempt}.")
        line = lines.pop(0)
        if isinstance(line, Exception):
            raise line
        return Reply(line, Tokens(calls=1, input=10, output=2), latency_ms=7)

    @property
    def steps(self) -> list[str]:
        """Steps that were asked, in order."""
        return [ask.step for ask in self.asks]

    def prompts(self, step: Step) -> list[str]:
        """What was shown at a step."""
        return [ask.prompt for ask in self.asks if ask.step == step]

    @property
    def left(self) -> dict[str, int]:
        """Lines that nobody asked for, by step."""
        return {step: len(lines) for step, lines in self._script.items() if lines}


class TableChecker:
    """Checks by a table from response to result; a `Checker`. What is not in it has no check.

    Args:
        table: results by response.
    """

    def __init__(self, table: Mapping[str, CheckResult]) -> None:
        self.table = table
        self.checked: list[str] = []

    async def check(self, problem: Problem, response: str) -> CheckOutcome:
        """See `Checker`."""
        self.checked.append(response)
        result = self.table.get(response, "not_applicable")
        return CheckOutcome(result, f"code says {result}", "table", seconds=0.25)
