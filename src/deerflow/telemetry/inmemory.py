"""Figures in dictionaries: counting costs next to nothing, and no library is loaded for it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

from deerflow.telemetry.protocol import Node, Phase

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Upper borders of durations, in seconds; a last bucket holds what is longer."""
MOST_LABELS = 200
"""Different names of a label; models make up names of tools, and no series may grow for ever."""
OTHER = "other"


@dataclass(slots=True)
class Durations:
    """A histogram.

    Attributes:
        counts: per bucket of BUCKETS, not cumulated, one more for longer ones.
        sum: of all, in seconds.
    """

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    sum: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.sum += seconds


class InMemoryMetrics:
    """See Metrics.

    Attributes:
        durations: by phase.
        executions: by node.
        interventions: how often a person was needed.
        checkpoint_bytes: of the newest checkpoint; None before the first.
        used: tokens by model.
        errors: failed calls by tool.
    """

    def __init__(self) -> None:
        self.durations: dict[str, Durations] = {}
        self.executions: Counter[str] = Counter()
        self.interventions = 0
        self.checkpoint_bytes: int | None = None
        self.used: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()

    def took(self, phase: Phase, seconds: float) -> None:
        """See Metrics. Clocks that were set back count as 0."""
        found = self.durations.get(phase)
        if found is None:
            found = self.durations[phase] = Durations()
        found.add(max(0.0, seconds))

    def executed(self, node: Node) -> None:
        """See Metrics."""
        self.executions[node] += 1

    def asked_human(self) -> None:
        """See Metrics."""
        self.interventions += 1

    def checkpoint(self, size: int) -> None:
        """See Metrics."""
        self.checkpoint_bytes = size

    def tokens(self, model: str, count: int) -> None:
        """See Metrics."""
        self.used[_bounded(self.used, model)] += count

    def tool_failed(self, tool: str) -> None:
        """See Metrics."""
        self.errors[_bounded(self.errors, tool)] += 1


def _bounded(counter: Counter[str], name: str) -> str:
    return name if name in counter or len(counter) < MOST_LABELS else OTHER
