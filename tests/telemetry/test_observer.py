"""Figures of a log."""

from __future__ import annotations

from typing import Any

import pytest

from deerflow.events import Event
from deerflow.telemetry.inmemory import InMemoryMetrics
from deerflow.telemetry.observer import MOST_OPEN, Observer, tokens_of

USAGE = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}


class Log:
    """Events a second apart, counted as they come."""

    def __init__(self) -> None:
        self.metrics = InMemoryMetrics()
        self._observer = Observer(self.metrics)
        self._seq = 0

    def __call__(self, type: str, run_id: str = "r", **payload: Any) -> None:
        self._seq += 1
        event = Event(self._seq, type, run_id, "t", 1000.0 + self._seq, payload)
        self._observer([event], 0)

    def seconds(self, phase: str) -> float | None:
        found = self.metrics.durations.get(phase)
        return None if found is None else found.sum


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_run_from_the_queue_to_its_end(log: Log) -> None:
    log("run_queued")  # 1
    log("run_started")  # 2
    log("model_started", message_id="m1")  # 3
    log("model_completed", message_id="m1", model="gpt", usage=USAGE, replayed=False)  # 4
    log("tool_started", tool_call_id="c1", name="bash")  # 5
    log("tool_started", tool_call_id="c2", name="ls")  # 6
    log("tool_completed", tool_call_id="c1", name="bash", status="error")  # 7
    log("tool_completed", tool_call_id="c2", name="ls", status="success")  # 8
    log("run_ended", status="success")  # 9

    metrics = log.metrics
    assert [log.seconds(each) for each in ("queued", "run", "model", "tool")] == [1, 7, 1, 4]
    assert metrics.executions == {"model": 1, "tools": 2}
    assert metrics.used == {"gpt": 15}
    assert metrics.errors == {"bash": 1}


def test_a_replayed_reply_was_not_paid_again(log: Log) -> None:
    log("model_started", message_id="m1")
    log("model_completed", message_id="m1", model="gpt", usage=USAGE, replayed=True)

    assert log.metrics.used == {}
    assert log.metrics.executions == {}


def test_calls_beside_the_turns_are_paid(log: Log) -> None:
    log("usage", caller="title", model="small", usage=USAGE)
    log("usage", caller="title", model="small", usage={})

    assert log.metrics.used == {"small": 15}


def test_a_run_that_another_worker_goes_on_with_has_no_duration_here(log: Log) -> None:
    log("run_started")
    log("handed_over", reason="its worker stops")
    log("run_ended", status="success")

    assert log.seconds("run") is None


def test_children_and_their_calls_are_told_apart(log: Log) -> None:
    log("task_started", task_id="a", subagent_type="general")  # 1
    log("tool_started", tool_call_id="call_0", name="ls", task_id="a")  # 2
    log("tool_started", tool_call_id="call_0", name="ls")  # 3
    log("tool_completed", tool_call_id="call_0", name="ls", status="success")  # 4
    log("tool_completed", tool_call_id="call_0", name="ls", status="success", task_id="a")  # 5
    log("task_timed_out", task_id="a")  # 6

    assert log.seconds("tool") == 1 + 3
    assert log.seconds("subagent") == 5
    assert log.metrics.executions == {"tools": 2, "subagent": 1}


def test_people_are_counted_when_they_are_asked(log: Log) -> None:
    log("approval_requested", approval_id="a")
    log("approval_decided", approval_id="a")
    log("question", question="Which one?")

    assert log.metrics.interventions == 2


def test_runs_that_never_end_are_forgotten(log: Log) -> None:
    for number in range(MOST_OPEN + 1):
        log("run_started", run_id=f"r{number}")
    log("run_ended", run_id="r0")
    assert log.seconds("run") is None
    log("run_ended", run_id="r1")
    assert log.seconds("run") is not None


def test_a_checkpoint_is_a_level() -> None:
    metrics = InMemoryMetrics()
    observer = Observer(metrics)
    observer([], 4096)
    observer([], 0)

    assert metrics.checkpoint_bytes == 4096


def test_a_total_that_is_missing_is_added_up() -> None:
    assert tokens_of({"usage": {"input_tokens": 3, "output_tokens": None}})["total_tokens"] == 3
    assert tokens_of({})["total_tokens"] == 0
