"""Channels of LangGraph that cost less to make: a run makes each of them several times."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any, Self, cast

from langgraph._internal._typing import MISSING
from langgraph.channels.base import BaseChannel
from langgraph.channels.binop import BinaryOperatorAggregate


class FoldedChannel(BinaryOperatorAggregate[Any]):
    """A `BinaryOperatorAggregate` whose copies do not work out the first value of its type again.

    Args:
        made: the channel to take the place of.
    """

    __slots__ = ("_fresh",)

    def __init__(self, made: BinaryOperatorAggregate[Any]) -> None:
        cast("Any", BaseChannel).__init__(self, made.typ, made.key)
        self.operator = made.operator
        first: Any = cast("Any", made).value
        self.value: Any = first
        self._fresh: Callable[[], Any] | None = None if first is MISSING else type(first)

    def copy(self) -> Self:
        """See BaseChannel."""
        return self._with(self.value)

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """See BaseChannel."""
        if checkpoint is MISSING:
            return self._with(MISSING if self._fresh is None else self._fresh())
        if type(checkpoint).__name__ == "_DeltaSnapshot":  # of a time when it was a delta channel
            checkpoint = checkpoint.value
        return self._with(checkpoint)

    def _with(self, value: Any) -> Self:
        made = object.__new__(type(self))
        made.typ, made.key, made.operator = self.typ, self.key, self.operator
        made.value, made._fresh = value, self._fresh
        return made


def quicken(channels: MutableMapping[str, BaseChannel[Any, Any, Any]]) -> None:
    """Put a FoldedChannel in the place of each aggregate of a compiled graph."""
    for name, channel in list(channels.items()):
        if type(channel) is BinaryOperatorAggregate:
            channels[name] = FoldedChannel(cast("BinaryOperatorAggregate[Any]", channel))
