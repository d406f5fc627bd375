"""Metrics: what is counted is shown, and names that models make up are bounded."""

import pytest

from deerflow.telemetry.exposition import Levels, exposition
from deerflow.telemetry.inmemory import MOST_LABELS, OTHER, InMemoryMetrics
from deerflow.telemetry.protocol import Metrics
from fakes.exposed import figures


@pytest.fixture
def metrics() -> InMemoryMetrics:
    return InMemoryMetrics()


def shown(metrics: InMemoryMetrics) -> dict[str, float]:
    return figures(exposition(metrics, Levels()).decode())


def test_the_seam_is_fulfilled(metrics: InMemoryMetrics) -> None:
    assert isinstance(metrics, Metrics)


def test_counts_add_up(metrics: InMemoryMetrics) -> None:
    for _ in range(3):
        metrics.executed("model")
        metrics.asked_human()
        metrics.tokens("gpt", 7)
        metrics.tool_failed("bash")
    metrics.checkpoint(100)
    metrics.checkpoint(50)

    found = shown(metrics)

    assert found['deerflow_node_executions_total{node="model"}'] == 3
    assert found["deerflow_human_interventions_total"] == 3
    assert found['deerflow_llm_token_usage_total{model_name="gpt"}'] == 21
    assert found['deerflow_tool_errors_total{tool="bash"}'] == 3
    assert found["deerflow_checkpoint_size_bytes"] == 50


def test_durations_fall_into_buckets(metrics: InMemoryMetrics) -> None:
    for seconds in (-1.0, 0.02, 0.02, 40.0, 9000.0):
        metrics.took("run", seconds)

    found = shown(metrics)

    name = "deerflow_task_duration_seconds"
    assert found[f'{name}_bucket{{le="0.005",phase="run"}}'] == 1  # clocks that were set back
    assert found[f'{name}_bucket{{le="0.025",phase="run"}}'] == 3
    assert found[f'{name}_bucket{{le="60.0",phase="run"}}'] == 4
    assert found[f'{name}_bucket{{le="+Inf",phase="run"}}'] == 5
    assert found[f'{name}_count{{phase="run"}}'] == 5
    assert found[f'{name}_sum{{phase="run"}}'] == pytest.approx(9040.04)


def test_made_up_names_do_not_grow_for_ever(metrics: InMemoryMetrics) -> None:
    for number in range(MOST_LABELS + 50):
        metrics.tool_failed(f"tool{number}")
    metrics.tool_failed("tool0")

    found = {name: n for name, n in shown(metrics).items() if "tool_errors_total" in name}

    assert found['deerflow_tool_errors_total{tool="tool0"}'] == 2
    assert found[f'deerflow_tool_errors_total{{tool="{OTHER}"}}'] == 50
    assert len(found) == MOST_LABELS + 1
