"""`custom` frames: what children do, retries, stops, and everything else that has no mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deerflow.events import Event
from deerflow.gateway.wire import message_dict

ENDS = {
    "task_completed": "task_completed",
    "task_failed": "task_failed",
    "task_cancelled": "task_cancelled",
    "task_timed_out": "task_timed_out",
}
PASSED_ON = frozenset(
    {
        "question",
        "guard",
        "notice",
        "batch_progress",
        "approval_requested",
        "approval_decided",
        "skill",
        "handed_over",
        "cancel_requested",
        "workspace_changes",
        "compacted",
    }
)
"""Events that go out as they are, with their type."""


@dataclass(slots=True)
class Child:
    """A child as far as the log has told of it.

    Attributes:
        task_id: on the wire: the id of the `task` call that it works for.
        description: of its task.
        model: that it began with.
        messages: how many it has written.
        usage: tokens of them together.
    """

    task_id: str
    description: str = ""
    model: str = ""
    messages: int = 0
    usage: dict[str, int] = field(
        default_factory=lambda: {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    )


class Children:
    """The children of a run."""

    def __init__(self) -> None:
        self._known: dict[str, Child] = {}

    def of(self, task_id: str) -> Child:
        """The child of an event; one that was not heard of before is named by its own id."""
        return self._known.setdefault(task_id, Child(task_id))

    def note(self, event: Event) -> None:
        """Take in what an event tells of a child."""
        payload = event.payload
        if event.type == "task_started":
            self._known[payload["task_id"]] = Child(
                str(payload.get("tool_call_id") or payload["task_id"]),
                str(payload.get("description", "")),
                str(payload.get("model", "")),
            )
        elif event.type == "task_running":
            child = self.of(str(payload["task_id"]))
            child.messages += 1
            usage: dict[str, Any] = payload["message"].get("usage_metadata") or {}
            for name in child.usage:
                child.usage[name] += int(usage.get(name) or 0)


def custom(event: Event, children: Children) -> dict[str, Any] | None:
    """The payload of an event's `custom` frame; None when it has none. `children` has noted it."""
    kind, payload = event.type, event.payload
    if kind == "task_started":
        child = children.of(payload["task_id"])
        return {
            "type": kind,
            "task_id": child.task_id,
            "description": child.description,
            "model_name": child.model,
            "subagent_type": payload.get("subagent_type"),
        }
    if kind == "task_running":
        child = children.of(str(payload["task_id"]))
        return {
            "type": kind,
            "task_id": child.task_id,
            "message": message_dict(payload["message"]),
            "message_index": child.messages,
            "total_messages": child.messages,
            "usage": dict(child.usage),
            "model_name": child.model,
        }
    if kind in ENDS:
        return _ended(kind, payload, children)
    if kind == "model_retry":
        return _retry(payload)
    if kind == "message":
        return _safety(payload["message"], event.thread_id)
    if kind in PASSED_ON:
        return {**payload, "type": kind}
    return None


def _ended(kind: str, payload: Mapping[str, Any], children: Children) -> dict[str, Any]:
    child = children.of(str(payload["task_id"]))
    spent: dict[str, Any] = payload.get("usage") or {}
    total: dict[str, Any] = spent.get("total") or {}
    usage = dict(child.usage)
    if total:
        usage = {
            "input_tokens": int(total.get("input", 0)),
            "output_tokens": int(total.get("output", 0)),
            "total_tokens": int(total.get("total", 0)),
        }
    found: dict[str, Any] = {
        "type": kind,
        "task_id": child.task_id,
        "result": payload.get("result"),
        "usage": usage,
        "model_name": child.model,
        "stop_reason": payload.get("stop_reason"),
    }
    if kind != "task_completed":
        error: dict[str, Any] = payload.get("error") or {}
        found["error"] = error.get("message") or payload.get("stop_reason") or "stopped"
    return found


def _retry(payload: Mapping[str, Any]) -> dict[str, Any]:
    attempt = int(payload.get("attempt", 1))
    return {
        "type": "llm_retry",
        "attempt": attempt,
        "max_attempts": attempt + 1,
        "wait_ms": round(float(payload.get("wait_seconds", 0.0)) * 1000),
        "reason": payload.get("code"),
        "message": payload.get("message"),
        "message_id": payload.get("message_id"),
        "next_model": payload.get("next_model"),
    }


def _safety(message: Mapping[str, Any], thread_id: str) -> dict[str, Any] | None:
    """An answer that the provider stopped for safety."""
    extra: dict[str, Any] = message.get("additional_kwargs") or {}
    stopped: dict[str, Any] = extra.get("deerflow_stopped") or {}
    if stopped.get("kind") != "safety":
        return None
    return {
        "type": "safety_termination",
        "detector": "finish_reason",
        "reason_field": "finish_reason",
        "reason_value": stopped.get("reason"),
        "suppressed_tool_call_count": 0,
        "suppressed_tool_call_names": [],
        "thread_id": thread_id,
    }
