"""Sums, prices and estimates of tokens."""

from __future__ import annotations

import json

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from deerflow.models.protocol import ModelSpec, Pricing
from deerflow.models.usage import UsageMeter, estimate, estimate_text

PRICED = ModelSpec(
    "main", "p", "m", pricing=Pricing("USD", input=2.0, output=10.0, cached_input=0.5)
)
FREE = ModelSpec("second", "p", "m2")


def reply(sent: int, made: int, cached: int = 0, reasoning: int = 0) -> AIMessage:
    return AIMessage(
        "x",
        usage_metadata={
            "input_tokens": sent,
            "output_tokens": made,
            "total_tokens": sent + made,
            "input_token_details": {"cache_read": cached},
            "output_token_details": {"reasoning": reasoning},
        },
    )


def test_sums_by_model_and_caller() -> None:
    meter = UsageMeter()
    meter.record(reply(100, 10), PRICED)
    meter.record(reply(50, 5, cached=40, reasoning=3), PRICED, caller="title")
    meter.record(reply(7, 1), FREE)
    assert meter.total.total == 173 and meter.total.calls == 3
    assert meter.by_model()["main"].input == 150
    assert meter.by_caller()["lead"].input == 107
    assert meter.by_caller()["title"].cached == 40
    assert meter.by_caller()["title"].reasoning == 3


def test_price_with_cached_input() -> None:
    tokens = UsageMeter().record(reply(1_000_000, 100_000, cached=400_000), PRICED)
    assert tokens.cost == {"USD": 0.6 * 2.0 + 0.4 * 0.5 + 0.1 * 10.0}
    assert UsageMeter().record(reply(10, 10), FREE).cost == {}


def test_cached_input_costs_as_input_without_a_price() -> None:
    spec = ModelSpec("m", "p", "m", pricing=Pricing("EUR", input=1.0, output=0.0))
    assert UsageMeter().record(reply(1_000_000, 0, cached=500_000), spec).cost == {"EUR": 1.0}


def test_silent_providers_are_estimated_and_marked() -> None:
    meter = UsageMeter()
    sent = [SystemMessage("s" * 300), HumanMessage("你好" * 50)]
    tokens = meter.record(AIMessage("a" * 30), PRICED, sent=sent)
    assert tokens.estimated == 1
    assert tokens.input >= 200 and tokens.output >= 10
    assert meter.to_dict()["total"]["estimated"] == 1
    assert tokens.cost["USD"] > 0


def test_estimates_count_pictures_calls_and_thinking() -> None:
    plain = estimate([HumanMessage("hi")])
    picture = HumanMessage(
        [{"type": "text", "text": "hi"}, {"type": "image", "base64": "A" * 9999}]
    )
    assert 900 < estimate([picture]) - plain < 1500
    call = {"name": "look", "args": {"path": "x" * 300}, "id": "1", "type": "tool_call"}
    assert estimate([AIMessage("", tool_calls=[call])]) > 100
    thought = AIMessage("", additional_kwargs={"reasoning_content": "x" * 300})
    assert estimate([thought]) > 100
    assert estimate_text("") == 0


def test_merge_and_round_trip() -> None:
    one, two = UsageMeter(), UsageMeter()
    one.record(reply(10, 1), PRICED)
    two.record(reply(20, 2), PRICED)
    two.record(AIMessage("?"), FREE, caller="child-1")
    one.merge(two)
    stored = json.loads(json.dumps(one.to_dict()))
    again = UsageMeter.from_dict(stored)
    assert again.to_dict() == one.to_dict()
    assert again.entries[("main", "lead")].input == 30
    again.record(reply(1, 1), PRICED)
    assert again.entries[("main", "lead")].calls == 3
