"""Reads figures off the log: what a process commits is what it counts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from deerflow.events import TASK_EVENTS, Event
from deerflow.telemetry.protocol import Metrics, Phase

MOST_OPEN = 10_000
"""Begun things whose end is awaited; the oldest are forgotten, their process has died."""


class Observer:
    """Counts committed events.

    Args:
        metrics: where to.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._begun: OrderedDict[tuple[str, ...], float] = OrderedDict()

    def __call__(self, events: Iterable[Event], checkpoint_bytes: int) -> None:
        """Take a commit.

        Args:
            events: in order.
            checkpoint_bytes: of its newest checkpoint, 0 when it has none.
        """
        for event in events:
            self._count(event)
        if checkpoint_bytes:
            self._metrics.checkpoint(checkpoint_bytes)

    def _count(self, event: Event) -> None:
        kind, payload, metrics = event.type, event.payload, self._metrics
        if kind == "model_started":
            self._begin(event, "model", _text(payload, "message_id"))
        elif kind == "model_completed":
            self._end(event, "model", _text(payload, "message_id"))
            if not payload.get("replayed"):
                metrics.executed("model")
                self._paid(payload)
        elif kind == "tool_started":
            self._begin(event, "tool", *_call(payload))
        elif kind == "tool_completed":
            self._end(event, "tool", *_call(payload))
            metrics.executed("tools")
            if payload.get("status") == "error":
                metrics.tool_failed(_text(payload, "name"))
        elif kind == "usage":
            self._paid(payload)
        elif kind in ("approval_requested", "question"):
            metrics.asked_human()
        else:
            self._lives(event)

    def _lives(self, event: Event) -> None:
        """Begin and end of runs and children."""
        kind, payload = event.type, event.payload
        if kind == "run_queued":
            self._begin(event, "queued")
        elif kind == "run_started":
            self._end(event, "queued")
            self._begin(event, "run")
        elif kind == "run_ended":
            self._end(event, "run")
        elif kind == "handed_over":
            self._begun.pop(("run", event.run_id), None)
        elif kind == "task_started":
            self._begin(event, "subagent", _text(payload, "task_id"))
        elif kind in TASK_EVENTS:
            self._end(event, "subagent", _text(payload, "task_id"))
            self._metrics.executed("subagent")

    def _begin(self, event: Event, phase: Phase, *what: str) -> None:
        self._begun[phase, event.run_id, *what] = event.created_at
        if len(self._begun) > MOST_OPEN:
            self._begun.popitem(last=False)

    def _end(self, event: Event, phase: Phase, *what: str) -> None:
        begun = self._begun.pop((phase, event.run_id, *what), None)
        if begun is not None:
            self._metrics.took(phase, event.created_at - begun)

    def _paid(self, payload: dict[str, Any]) -> None:
        total = tokens_of(payload)["total_tokens"]
        if total:
            self._metrics.tokens(_text(payload, "model"), total)


def tokens_of(payload: dict[str, Any]) -> dict[str, int]:
    """Counts of the field `usage`; what a provider did not say is 0."""
    usage: dict[str, Any] = payload.get("usage") or {}
    names = ("input_tokens", "output_tokens", "total_tokens")
    found = {name: int(usage.get(name) or 0) for name in names}
    found["total_tokens"] = found["total_tokens"] or sum(found.values())
    return found


def _call(payload: dict[str, Any]) -> tuple[str, str]:
    """Providers repeat ids of calls; a child's are told apart by its task."""
    return _text(payload, "task_id"), _text(payload, "tool_call_id")


def _text(payload: dict[str, Any], name: str) -> str:
    return str(payload.get(name) or "")
