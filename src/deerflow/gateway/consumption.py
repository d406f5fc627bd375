"""Adds up what runs have used, from the usage of their rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from deerflow.gateway.wire import SIDE_CALLERS


@dataclass(slots=True)
class Consumption:
    """Sums over runs.

    Attributes:
        input: tokens sent.
        output: tokens made.
        calls: of models.
        cost: money by currency.
        by_model: name → {input_tokens, output_tokens, total_tokens, calls, runs, cost}.
        by_caller: lead_agent, subagent and middleware → tokens.
    """

    input: int = 0
    output: int = 0
    calls: int = 0
    cost: dict[str, float] = field(default_factory=dict[str, float])
    by_model: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    by_caller: dict[str, int] = field(
        default_factory=lambda: {"lead_agent": 0, "subagent": 0, "middleware": 0}
    )


def added(total: Consumption, usage: Mapping[str, Any] | None) -> None:
    """Add a run's usage (see `models.usage.UsageMeter.to_dict`); nothing for a run without one."""
    found = usage or {}
    whole = _object(found.get("total"))
    total.input += _number(whole, "input")
    total.output += _number(whole, "output")
    total.calls += _number(whole, "calls")
    _add_money(total.cost, whole)
    for name, tokens in _object(found.get("by_model")).items():
        _add_model(total.by_model, name, _object(tokens))
    for name, tokens in _object(found.get("by_caller")).items():
        part = _object(tokens)
        total.by_caller[group_of(name)] += _number(part, "input") + _number(part, "output")


def group_of(caller: str) -> str:
    """The wire's word for a caller of models."""
    if caller == "lead":
        return "lead_agent"
    return "middleware" if caller in ("middleware", *SIDE_CALLERS) else "subagent"


def _add_model(models: dict[str, dict[str, Any]], name: str, tokens: dict[str, Any]) -> None:
    empty = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0, "calls": 0, "runs": 0}
    entry = models.setdefault(name, {**empty, "cost": {}})
    entry["input_tokens"] += _number(tokens, "input")
    entry["output_tokens"] += _number(tokens, "output")
    entry["total_tokens"] = entry["input_tokens"] + entry["output_tokens"]
    entry["calls"] += _number(tokens, "calls")
    entry["runs"] += 1
    _add_money(entry["cost"], tokens)


def _add_money(cost: dict[str, float], tokens: dict[str, Any]) -> None:
    for currency, money in _object(tokens.get("cost")).items():
        cost[currency] = round(cost.get(currency, 0.0) + float(money), 8)


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _number(tokens: Mapping[str, Any], name: str) -> int:
    value = tokens.get(name)
    return int(value) if isinstance(value, int | float) else 0
