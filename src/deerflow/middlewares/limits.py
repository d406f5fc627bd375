"""The limits of `token_budget` and `subagents.token_budget` as values that rows compare with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from deerflow.config.schema import SubagentTokenBudgetConfig, TokenBudgetConfig
from deerflow.errors import LimitError

Unit = Literal["tokens", "input", "output", "money"]
Scope = Literal["run", "day", "child"]


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit.

    Attributes:
        rule: its key in the configuration, which is what the user is told.
        unit: what it counts.
        scope: whose use: the whole run's, the user's of the day, or one child's.
        ceiling: what may be used, `hard` already taken into account.
        warn: from where on the model is told to finish.
        currency: of money, "" otherwise.
    """

    rule: str
    unit: Unit
    scope: Scope
    ceiling: float
    warn: float
    currency: str = ""

    def number(self, value: float) -> float:
        """A value as events and outcomes show it: whole tokens, money to six digits."""
        return round(value, 6) if self.unit == "money" else int(value)

    def said(self, value: float) -> str:
        """A value for people."""
        if self.unit == "money":
            return f"{value:.4f}".rstrip("0").rstrip(".") + f" {self.currency}".rstrip()
        kind = "" if self.unit == "tokens" else f"{self.unit} "
        return f"{int(value):,} {kind}tokens"

    def text(self, used: float, need: float = 0.0) -> str:
        """What is used of it, and what the next step would need when that is the reason."""
        when = " today" if self.scope == "day" else ""
        text = f"{self.rule}: {self.number(used):,} of {self.said(self.ceiling)} are used{when}"
        if need and used < self.ceiling:
            text += f", and the next step needs about {self.said(need)}"
        if self.scope == "day":
            text += "; the count begins anew at 00:00 UTC"
        return text

    def error(self, used: float, need: float = 0.0) -> LimitError:
        """The error that says what is used and what was wanted."""
        return LimitError(
            self.text(used, need),
            rule=self.rule,
            used=self.number(used),
            limit=self.number(self.ceiling),
        )


def limits_of(config: TokenBudgetConfig) -> tuple[Limit, ...]:
    """Limits of the section `token_budget` that hold for a run and for its user's day."""
    found: list[tuple[str, Unit, Scope, float | None]] = []
    if config.run is not None:
        found.append(("run", "tokens", "run", config.run))
    elif config.enabled:
        found.append(("max_tokens", "tokens", "run", config.max_tokens))
    if config.enabled:
        found.append(("max_input_tokens", "input", "run", config.max_input_tokens))
        found.append(("max_output_tokens", "output", "run", config.max_output_tokens))
    found.append(("user_day", "tokens", "day", config.user_day))
    found.append(("money_day", "money", "day", config.money_day))
    return tuple(
        Limit(
            f"token_budget.{key}",
            unit,
            scope,
            value * config.hard,
            value * min(config.warn, config.hard),
            (config.currency or "") if unit == "money" else "",
        )
        for key, unit, scope, value in found
        if value is not None
    )


def child_limits(config: SubagentTokenBudgetConfig) -> tuple[Limit, ...]:
    """Limits of the section `subagents.token_budget`, for each child alone."""
    if not config.enabled:
        return ()
    found: tuple[tuple[str, Unit, int | None], ...] = (
        ("max_tokens", "tokens", config.max_tokens),
        ("max_input_tokens", "input", config.max_input_tokens),
        ("max_output_tokens", "output", config.max_output_tokens),
    )
    return tuple(
        Limit(f"subagents.token_budget.{key}", unit, "child", value, value * config.warn)
        for key, unit, value in found
        if value is not None
    )
