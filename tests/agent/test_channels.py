"""Channels that cost less to make behave like those of LangGraph."""

from __future__ import annotations

from typing import Any, cast

import pytest
from langgraph._internal._typing import MISSING
from langgraph.channels.base import BaseChannel
from langgraph.channels.binop import BinaryOperatorAggregate
from langgraph.channels.last_value import LastValue
from langgraph.checkpoint.serde.types import (
    _DeltaSnapshot as DeltaSnapshot,  # pyright: ignore[reportPrivateUsage]
)
from langgraph.types import Overwrite

from deerflow.agent.channels import FoldedChannel, quicken
from deerflow.agent.state import merge_artifacts, replace

KINDS: list[tuple[Any, Any]] = [(list, merge_artifacts), (str, replace), (int | None, replace)]


@pytest.mark.parametrize(("kind", "operator"), KINDS)
@pytest.mark.parametrize("stored", [MISSING, ["a"], DeltaSnapshot(["a"])])
def test_a_folded_channel_equals_an_aggregate(kind: Any, operator: Any, stored: Any) -> None:
    plain: Any = BinaryOperatorAggregate(kind, operator)
    plain.key = "k"
    found = []
    for made in (plain, FoldedChannel(plain)):
        channel = made.from_checkpoint(stored)
        before = channel.checkpoint()
        channel.update([["b"], Overwrite(["c"])])
        copy = channel.copy()
        copy.update([["d"]])
        found.append((channel.key, channel.typ, before, channel.get(), copy.get()))
    assert found[0] == found[1]


def test_each_has_a_first_value_of_its_own() -> None:
    folded = FoldedChannel(BinaryOperatorAggregate[Any](list, merge_artifacts))
    one: Any = folded.from_checkpoint(MISSING)
    other = folded.from_checkpoint(MISSING)
    cast("list[str]", one.get()).append("x")
    assert other.get() == []


def test_only_aggregates_are_replaced() -> None:
    channels: dict[str, BaseChannel[Any, Any, Any]] = {
        "a": BinaryOperatorAggregate(list, merge_artifacts),
        "b": LastValue(str),
    }
    quicken(channels)
    assert [type(channel) for channel in channels.values()] == [FoldedChannel, LastValue]
