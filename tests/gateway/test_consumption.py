"""Sums over what runs have used."""

from __future__ import annotations

from deerflow.gateway.consumption import Consumption, added
from deerflow.models.usage import Tokens, UsageMeter


def usage(**callers: tuple[int, int]) -> dict[str, object]:
    """As a run's row has it: caller → tokens in and out, of one model with a price."""
    meter = UsageMeter()
    for caller, (given, made) in callers.items():
        tokens = Tokens(calls=1, input=given, output=made, cost={"EUR": 0.1})
        meter.entries["small", caller.replace("_", "-")] = tokens
    return meter.to_dict()


def test_callers_are_told_in_the_words_of_the_wire() -> None:
    total = Consumption()
    added(total, usage(lead=(100, 10), title=(5, 1), summary=(7, 2), researcher=(50, 5)))
    added(total, usage(lead=(1, 1)))
    assert (total.input, total.output, total.calls) == (163, 19, 5)
    assert total.by_caller == {"lead_agent": 112, "subagent": 55, "middleware": 15}
    assert total.by_model["small"]["total_tokens"] == 182
    assert total.by_model["small"]["runs"] == 2
    assert total.cost == {"EUR": 0.5}


def test_a_run_without_usage_adds_nothing() -> None:
    total = Consumption()
    for nothing in (None, {}, {"total": None, "by_model": [], "by_caller": "x"}):
        added(total, nothing)
    assert total == Consumption()
