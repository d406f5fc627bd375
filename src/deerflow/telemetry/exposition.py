"""The text that Prometheus scrapes, made of figures when somebody asks for it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from deerflow.telemetry.inmemory import BUCKETS, InMemoryMetrics

CONTENT_TYPE = CONTENT_TYPE_LATEST
"""Of the text."""


@dataclass(frozen=True, slots=True)
class Levels:
    """What is so now, of the serving process.

    Attributes:
        queue: unfinished runs of all processes by status; None when the database does not answer.
        takeovers: dead workers whose runs this process took over, since its start.
        streams: clients that read a stream from this process; None = it serves none.
    """

    queue: Mapping[str, int] | None = None
    takeovers: int = 0
    streams: int | None = None


def exposition(metrics: InMemoryMetrics, levels: Levels) -> bytes:
    """All figures as text, see prometheus.io/docs/instrumenting/exposition_formats."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(metrics, levels))
    return generate_latest(registry)


class _Collector:
    def __init__(self, metrics: InMemoryMetrics, levels: Levels) -> None:
        self._metrics = metrics
        self._levels = levels

    def collect(self) -> Generator[Metric]:
        found, levels = self._metrics, self._levels
        yield _durations(found)
        yield _counter(
            "deerflow_node_executions", "Executions of model, tools and children.",
            "node", found.executions,
        )  # fmt: skip
        yield CounterMetricFamily(
            "deerflow_human_interventions",
            "Approvals and questions that a person was asked for.",
            value=found.interventions,
        )
        if found.checkpoint_bytes is not None:
            yield GaugeMetricFamily(
                "deerflow_checkpoint_size_bytes",
                "Bytes of the newest checkpoint.",
                value=found.checkpoint_bytes,
            )
        yield _counter(
            "deerflow_llm_token_usage", "Tokens of paid model calls.", "model_name", found.used
        )
        yield _counter("deerflow_tool_errors", "Tool calls with an error.", "tool", found.errors)
        if levels.queue is not None:
            depth = GaugeMetricFamily(
                "deerflow_queue_depth", "Unfinished runs of all processes.", labels=["status"]
            )
            for status, count in {"pending": 0, "running": 0, **levels.queue}.items():
                depth.add_metric([status], count)
            yield depth
        yield CounterMetricFamily(
            "deerflow_lease_takeovers",
            "Dead workers whose runs this process took over.",
            value=levels.takeovers,
        )
        if levels.streams is not None:
            yield GaugeMetricFamily(
                "deerflow_sse_clients", "Clients that read a stream.", value=levels.streams
            )


def _durations(found: InMemoryMetrics) -> Metric:
    family = HistogramMetricFamily(
        "deerflow_task_duration_seconds", "Duration of what runs consist of.", labels=["phase"]
    )
    names = [*(str(border) for border in BUCKETS), "+Inf"]
    for phase, durations in found.durations.items():
        counts = list(accumulate(durations.counts))
        family.add_metric([phase], list(zip(names, counts, strict=True)), durations.sum)
    return family


def _counter(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
