"""The text for Prometheus."""

from __future__ import annotations

from deerflow.telemetry.exposition import Levels, exposition
from deerflow.telemetry.inmemory import InMemoryMetrics
from fakes.exposed import figures


def test_levels_are_those_of_the_moment() -> None:
    levels = Levels(queue={"running": 2}, takeovers=3, streams=4)

    found = figures(exposition(InMemoryMetrics(), levels).decode())

    assert found == {
        'deerflow_queue_depth{status="pending"}': 0,
        'deerflow_queue_depth{status="running"}': 2,
        "deerflow_lease_takeovers_total": 3,
        "deerflow_sse_clients": 4,
        "deerflow_human_interventions_total": 0,
    }


def test_what_is_not_known_is_left_out() -> None:
    text = exposition(InMemoryMetrics(), Levels()).decode()

    assert "queue_depth" not in text
    assert "sse_clients" not in text
    assert "checkpoint_size" not in text
