"""Spans of runs, model calls and tool calls, read off the log: the run itself waits for nothing.

Names and attributes are those of OpenTelemetry's conventions for generative AI
(opentelemetry.io/docs/specs/semconv/gen-ai). No words of users, models or tools are in them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context

from deerflow.events import TASK_EVENTS, Event
from deerflow.telemetry.observer import tokens_of

MOST_OPEN = 10_000
"""Runs and calls whose end is awaited; the oldest are forgotten, their process has died."""
LEAD = "lead"
"""Name of the agent that leads a run, as in the log's audit entries."""


class Spans:
    """Makes spans of committed events.

    Args:
        tracer: where to.
        provider: identity of a configured model's provider, for its name.
    """

    def __init__(self, tracer: Tracer, provider: Callable[[str], str]) -> None:
        self._tracer = tracer
        self._provider = provider
        self._agents: OrderedDict[tuple[str, str], tuple[Span, Context]] = OrderedDict()
        self._begun: OrderedDict[tuple[str, ...], float] = OrderedDict()

    def __call__(self, events: Iterable[Event], checkpoint_bytes: int) -> None:
        """Take a commit; see Observer."""
        for event in events:
            self._tell(event)

    def close(self) -> None:
        """End what is open; another process may go on with these runs."""
        while self._agents:
            self._agents.popitem()[1][0].end()

    def _tell(self, event: Event) -> None:
        kind, payload = event.type, event.payload
        if kind == "run_started":
            self._begin_agent(event, "", LEAD)
        elif kind == "task_started":
            self._begin_agent(event, _text(payload, "task_id"), _text(payload, "subagent_type"))
        elif kind == "run_ended":
            self._end_agent(event, "", _text(payload.get("error") or {}, "code"))
        elif kind == "handed_over":
            self._end_agent(event, "", "handed_over")
        elif kind in TASK_EVENTS:
            failed = "" if kind == "task_completed" else kind
            self._end_agent(event, _text(payload, "task_id"), failed)
        elif kind in ("model_started", "tool_started"):
            self._keep(_key(event), event.created_at)
        elif kind == "model_completed":
            self._model(event)
        elif kind == "tool_completed":
            self._tool(event)

    # --- agents ---

    def _begin_agent(self, event: Event, task_id: str, agent: str) -> None:
        within = self._agents.get((event.run_id, "")) if task_id else None
        span = self._tracer.start_span(
            f"invoke_agent {agent}",
            context=within[1] if within else Context(),
            kind=SpanKind.INTERNAL,
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": agent,
                "gen_ai.conversation.id": event.thread_id,
                "deerflow.run.id": event.run_id,
            },
            start_time=_nanoseconds(event.created_at),
        )
        before = self._agents.pop((event.run_id, task_id), None)
        if before is not None:
            before[0].end(_nanoseconds(event.created_at))
        self._agents[event.run_id, task_id] = span, set_span_in_context(span, Context())
        if len(self._agents) > MOST_OPEN:
            self._agents.popitem(last=False)[1][0].end()

    def _end_agent(self, event: Event, task_id: str, error: str) -> None:
        found = self._agents.pop((event.run_id, task_id), None)
        if found is None:
            return
        status = _text(event.payload, "status")
        if status:
            found[0].set_attribute("deerflow.run.status", status)
        _end(found[0], event, error)

    # --- calls ---

    def _model(self, event: Event) -> None:
        payload = event.payload
        begun = self._begun.pop(_key(event), event.created_at)
        if payload.get("replayed"):
            return  # taken from the journal: nobody was called
        model, tokens = _text(payload, "model"), tokens_of(payload)
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": self._provider(model),
            "gen_ai.request.model": model,
            "gen_ai.usage.input_tokens": tokens["input_tokens"],
            "gen_ai.usage.output_tokens": tokens["output_tokens"],
        }
        if payload.get("finish_reason"):
            attributes["gen_ai.response.finish_reasons"] = (_text(payload, "finish_reason"),)
        _end(self._call(event, f"chat {model}", SpanKind.CLIENT, begun, attributes), event, "")

    def _tool(self, event: Event) -> None:
        payload, name = event.payload, _text(event.payload, "name")
        begun = self._begun.pop(_key(event), event.created_at)
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": _text(payload, "tool_call_id"),
        }
        span = self._call(event, f"execute_tool {name}", SpanKind.INTERNAL, begun, attributes)
        _end(span, event, "tool_error" if payload.get("status") == "error" else "")

    def _call(
        self, event: Event, name: str, kind: SpanKind, begun: float, attributes: dict[str, Any]
    ) -> Span:
        task_id = _text(event.payload, "task_id")
        within = self._agents.get((event.run_id, task_id)) or self._agents.get((event.run_id, ""))
        return self._tracer.start_span(
            name,
            context=within[1] if within else Context(),
            kind=kind,
            attributes={"gen_ai.conversation.id": event.thread_id, **attributes},
            start_time=_nanoseconds(begun),
        )

    def _keep(self, key: tuple[str, ...], begun: float) -> None:
        self._begun[key] = begun
        if len(self._begun) > MOST_OPEN:
            self._begun.popitem(last=False)


def _end(span: Span, event: Event, error: str) -> None:
    if error:
        span.set_attribute("error.type", error)
        span.set_status(StatusCode.ERROR)
    span.end(_nanoseconds(event.created_at))


def _key(event: Event) -> tuple[str, ...]:
    payload = event.payload
    what = "message_id" if event.type.startswith("model_") else "tool_call_id"
    return event.run_id, _text(payload, "task_id"), what, _text(payload, what)


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)


def _text(payload: dict[str, Any], name: str) -> str:
    return str(payload.get(name) or "")
