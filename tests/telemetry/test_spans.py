"""Spans of a log, taken by an exporter in memory."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from deerflow.events import Event
from deerflow.telemetry.spans import Spans

SECRET = "do not tell"
USAGE = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}


class Log:
    """Events a second apart, and the spans that came of them."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.spans = Spans(provider.get_tracer("test"), lambda model: f"provider of {model}")
        self._seq = 0

    def __call__(self, type: str, run_id: str = "r", **payload: Any) -> None:
        self._seq += 1
        self.spans([Event(self._seq, type, run_id, "t", 1000.0 + self._seq, payload)], 0)

    @property
    def ended(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self._exporter.get_finished_spans()}


@pytest.fixture
def log() -> Log:
    return Log()


def seconds(span: ReadableSpan) -> tuple[float, float]:
    assert span.start_time is not None
    assert span.end_time is not None
    return span.start_time / 1e9 - 1000, span.end_time / 1e9 - 1000


def parent(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


def test_a_run_holds_its_calls_and_nothing_that_was_said(log: Log) -> None:
    log("run_started", input=SECRET)  # 1
    log("model_started", message_id="m")  # 2
    log(
        "model_completed", message_id="m", model="gpt", usage=USAGE, finish_reason="tool_calls"
    )  # 3
    log("message", message={"content": SECRET})  # 4
    log("tool_started", tool_call_id="c", name="bash", args={"command": SECRET})  # 5
    log("tool_completed", tool_call_id="c", name="bash", status="success")  # 6
    log("run_ended", status="success", error=None)  # 7

    run, chat, tool = (
        log.ended[name] for name in ("invoke_agent lead", "chat gpt", "execute_tool bash")
    )
    assert seconds(run) == (1, 7)
    assert seconds(chat) == (2, 3)
    assert seconds(tool) == (5, 6)
    assert parent(run) is None
    assert parent(chat) == parent(tool) == run.context.span_id  # type: ignore[union-attr]
    assert (run.kind, chat.kind, tool.kind) == (
        SpanKind.INTERNAL,
        SpanKind.CLIENT,
        SpanKind.INTERNAL,
    )
    assert dict(chat.attributes or {}) == {
        "gen_ai.conversation.id": "t",
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "provider of gpt",
        "gen_ai.request.model": "gpt",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.response.finish_reasons": ("tool_calls",),
    }
    assert dict(tool.attributes or {})["gen_ai.tool.call.id"] == "c"
    assert dict(run.attributes or {})["deerflow.run.status"] == "success"
    assert SECRET not in "".join(span.to_json() for span in log.ended.values())


def test_failures_are_marked_by_their_code(log: Log) -> None:
    log("run_started")
    log("tool_started", tool_call_id="c", name="bash")
    log("tool_completed", tool_call_id="c", name="bash", status="error")
    log("run_ended", status="error", error={"code": "model_failed", "message": SECRET})

    run, tool = log.ended["invoke_agent lead"], log.ended["execute_tool bash"]
    assert run.status.status_code == tool.status.status_code == StatusCode.ERROR
    assert dict(run.attributes or {})["error.type"] == "model_failed"
    assert SECRET not in run.to_json()


def test_calls_of_a_child_lie_within_the_child(log: Log) -> None:
    log("run_started")
    log("task_started", task_id="a", subagent_type="general")
    log("model_started", message_id="m", task_id="a")
    log("model_completed", message_id="m", model="gpt", usage=USAGE, task_id="a")
    log("task_failed", task_id="a", status="failed")
    log("run_ended", status="success")

    run, child, chat = (
        log.ended[name] for name in ("invoke_agent lead", "invoke_agent general", "chat gpt")
    )
    assert parent(chat) == child.context.span_id  # type: ignore[union-attr]
    assert parent(child) == run.context.span_id  # type: ignore[union-attr]
    assert child.status.status_code == StatusCode.ERROR


def test_a_replayed_reply_is_no_call(log: Log) -> None:
    log("run_started")
    log("model_started", message_id="m")
    log("model_completed", message_id="m", model="gpt", usage=USAGE, replayed=True)
    log("run_ended", status="success")

    assert list(log.ended) == ["invoke_agent lead"]


def test_what_is_open_ends_with_the_process_or_the_worker(log: Log) -> None:
    log("run_started", run_id="a")
    log("run_started", run_id="b")
    log("handed_over", run_id="a", reason="its worker stops")
    assert len(log.ended) == 1
    log.spans.close()
    spans = log._exporter.get_finished_spans()
    assert len(spans) == 2
