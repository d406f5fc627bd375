"""What result files tell beside their answers: states, tokens, money, time, confidence.

`raw` and `config` are free-form and may come from anybody: what is not of the expected kind counts
as not told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, cast, get_args

from deerflow.exam.contract import Answer
from deerflow.verify.messages import State

_STATES: tuple[str, ...] = get_args(State)


@dataclass(slots=True)
class Spent:
    """Tokens and money of some calls.

    Attributes:
        calls: model calls.
        input: tokens sent, cached ones included.
        output: tokens made.
        cached: part of `input`.
        cost: money by currency.
    """

    calls: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    cost: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.input + self.output

    def add(self, other: Spent) -> None:
        """Add another sum to this one."""
        self.calls += other.calls
        self.input += other.input
        self.output += other.output
        self.cached += other.cached
        for currency, money in other.cost.items():
            self.cost[currency] = self.cost.get(currency, 0.0) + money


@dataclass(frozen=True, slots=True)
class Account:
    """What one record tells.

    Attributes:
        question_id: of the record.
        state: how the question ended, "" when not told.
        accepted: by a validator; None when not told, or when none has looked at it.
        attempts: answers of the resolver, 0 when not told.
        spent: by role.
        latency_ms: of the record, at least 0.
        stated: confidence that the resolver stated, 0 to 1.
        agreement: confidence from the agreement of answers, 0 to 1.
        first: the resolver's first answer, None when not told.
        error: code of what ended it early, "" for none.
    """

    question_id: str
    state: str
    accepted: bool | None
    attempts: int
    spent: Mapping[str, Spent]
    latency_ms: int
    stated: float | None
    agreement: float | None
    first: str | None
    error: str

    @property
    def total(self) -> Spent:
        """Of all roles."""
        return summed(self.spent.values())


def account(answer: Answer) -> Account:
    """Read a record's `raw`."""
    raw = answer.raw
    state = raw.get("state")
    state = state if isinstance(state, str) and state in _STATES else ""
    accepted = raw.get("accepted")
    judged = isinstance(accepted, bool) and state in ("", "accepted", "exhausted")
    confidence = _object(raw.get("confidence"))
    error = raw.get("error")
    code = error if isinstance(error, str) else _object(error).get("code")
    return Account(
        question_id=answer.question_id,
        state=state,
        accepted=bool(accepted) if judged else None,
        attempts=_count(raw.get("attempts")),
        spent={role[:40]: _spent(tokens) for role, tokens in _object(raw.get("tokens")).items()},
        latency_ms=max(0, answer.latency_ms),
        stated=_share(confidence.get("stated")),
        agreement=_share(confidence.get("agreement")),
        first=_first(raw.get("history")),
        error=code[:80] if isinstance(code, str) else "",
    )


def summed(parts: Iterable[Spent]) -> Spent:
    """Everything together."""
    total = Spent()
    for part in parts:
        total.add(part)
    return total


def by_role(accounts: Iterable[Account]) -> dict[str, Spent]:
    """Sums by role, in the order of first appearance."""
    found: dict[str, Spent] = {}
    for each in accounts:
        for role, spent in each.spent.items():
            found.setdefault(role, Spent()).add(spent)
    return found


def _spent(value: object) -> Spent:
    told = _object(value)
    cost = {
        name[:12]: float(money)
        for name, money in _object(told.get("cost")).items()
        if _number(money) and money >= 0
    }
    counts = (_count(told.get(name)) for name in ("calls", "input", "output", "cached"))
    return Spent(*counts, cost=cost)


def _first(history: object) -> str | None:
    for each in cast("list[object]", history) if isinstance(history, list) else []:
        event = _object(each)
        response = event.get("response")
        if event.get("step") == "resolve" and isinstance(response, str):
            return response
    return None


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {}
    return {
        name: each for name, each in cast("dict[Any, Any]", value).items() if isinstance(name, str)
    }


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _share(value: Any) -> float | None:
    return float(value) if _number(value) and 0 <= value <= 1 else None
