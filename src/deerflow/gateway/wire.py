"""Rows, states and messages as clients of the LangGraph protocol read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from deerflow.agent.record import shown
from deerflow.storage.protocol import RunRow, ThreadRow

if TYPE_CHECKING:
    from langchain_core.messages import AnyMessage

    from deerflow.runtime.history import Snapshot

WIRE_STATUS = {"cancelled": "interrupted"}
"""Run status → status on the wire, where the two differ: clients know no `cancelled`."""

LEAD = "lead_agent"
"""Name of the built-in agent."""


def iso(seconds: float | None) -> str | None:
    """UTC seconds as ISO 8601 with microseconds; None stays None."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")


def message_dict(record: Mapping[str, Any]) -> dict[str, Any]:
    """A message of the log (see `agent.record.shown`) with the fields that clients expect.

    Args:
        record: type, id, content and what else the log has.
    """
    found: dict[str, Any] = {"additional_kwargs": {}, "response_metadata": {}, **record}
    finish = found.pop("finish_reason", None)
    if finish:
        found["response_metadata"] = {**found["response_metadata"], "finish_reason": finish}
    if found["type"] == "ai":
        found["tool_calls"] = [
            {**call, "type": "tool_call"} for call in record.get("tool_calls", ())
        ]
        found["invalid_tool_calls"] = []
    return found


def message_of(message: AnyMessage | Mapping[str, Any]) -> dict[str, Any]:
    """A message of a state on the wire."""
    if isinstance(message, Mapping):
        return message_dict(message)
    return message_dict(shown(message))


def messages_of(messages: Iterable[Any]) -> list[dict[str, Any]]:
    """Messages of a state on the wire."""
    return [message_of(message) for message in messages]


def values_dict(snapshot: Snapshot | None, thread: ThreadRow) -> dict[str, Any]:
    """The state of a thread as a `values` frame has it; without one, what its row knows."""
    values = dict(snapshot.values) if snapshot is not None else {}
    values["messages"] = messages_of(values.get("messages", ()))
    if thread.title:
        values.setdefault("title", thread.title)
    return values


def thread_dict(
    row: ThreadRow, *, snapshot: Snapshot | None = None, values: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A thread.

    Args:
        row: its row.
        snapshot: its state, for what waits for a human.
        values: its public state; None for what the row knows (the title).
    """
    brief = {"title": row.title} if row.title else {}
    interrupts: dict[str, Any] = {}
    if snapshot is not None:
        for task in snapshot.tasks:
            if task.get("interrupts"):
                interrupts[str(task["id"])] = task["interrupts"]
        if snapshot.interrupts and not interrupts:
            interrupts["interrupt"] = list(snapshot.interrupts)
    return {
        "thread_id": row.thread_id,
        "created_at": iso(row.created_at),
        "updated_at": iso(row.updated_at),
        "state_updated_at": iso(row.updated_at),
        "metadata": row.metadata,
        "status": row.status,
        "values": dict(values) if values is not None else brief,
        "interrupts": interrupts,
        "config": {},
    }


def checkpoint_dict(thread_id: str, checkpoint_id: str | None) -> dict[str, Any] | None:
    """Reference to a state."""
    if not checkpoint_id:
        return None
    return {
        "thread_id": thread_id,
        "checkpoint_ns": "",
        "checkpoint_id": checkpoint_id,
        "checkpoint_map": None,
    }


def state_dict(snapshot: Snapshot | None, thread: ThreadRow) -> dict[str, Any]:
    """A state with its references, as `GET …/state` answers."""
    ident = snapshot.checkpoint_id if snapshot else None
    parent = snapshot.parent_checkpoint_id if snapshot else None
    return {
        "values": values_dict(snapshot, thread) if snapshot else {},
        "next": list(snapshot.next) if snapshot else [],
        "metadata": snapshot.metadata if snapshot else {},
        "checkpoint": checkpoint_dict(thread.thread_id, ident),
        "checkpoint_id": ident,
        "parent_checkpoint": checkpoint_dict(thread.thread_id, parent),
        "parent_checkpoint_id": parent,
        "created_at": snapshot.created_at if snapshot else None,
        "tasks": list(snapshot.tasks) if snapshot else [],
        "interrupts": list(snapshot.interrupts) if snapshot else [],
    }


def stop_reason(run: RunRow) -> str | None:
    """Why a run stopped before it was answered: cancelled, a rule's name, waiting_for_human, …."""
    if run.status == "cancelled":
        return "cancelled"
    if run.error:
        return str(run.error.get("code", "error"))
    outcome = run.outcome or {}
    kind = outcome.get("kind")
    if kind == "limit_reached":
        return str(outcome.get("rule", kind))
    return None if kind in (None, "answered") else str(kind)


def run_dict(run: RunRow, thread_id: str) -> dict[str, Any]:
    """A run.

    Args:
        run: its row.
        thread_id: the client's id of its thread.
    """
    usage = run.usage or {}
    total = _part(usage, "total")
    callers = {name: _tokens(part) for name, part in _part(usage, "by_caller").items()}
    lead, middleware = callers.pop("lead", 0), callers.pop("middleware", 0)
    side = sum(callers.pop(name, 0) for name in SIDE_CALLERS)
    return {
        "run_id": run.run_id,
        "thread_id": thread_id,
        "assistant_id": run.config.get("agent") or LEAD,
        "status": WIRE_STATUS.get(run.status, run.status),
        "metadata": run.metadata,
        "kwargs": {"context": _part(run.input, "context")},
        "multitask_strategy": run.config.get("strategy", "reject"),
        "created_at": iso(run.created_at),
        "updated_at": iso(run.ended_at or run.started_at or run.created_at),
        "total_input_tokens": total.get("input", 0),
        "total_output_tokens": total.get("output", 0),
        "total_tokens": _tokens(total),
        "llm_call_count": int(total.get("calls", 0)),
        "lead_agent_tokens": lead,
        "subagent_tokens": sum(callers.values()),
        "middleware_tokens": middleware + side,
        "message_count": int(usage.get("messages", 0)),
        "stop_reason": stop_reason(run),
        "error": run.error,
        "outcome": run.outcome,
    }


SIDE_CALLERS = ("title", "summary", "goal", "memory", "suggestions", "input_polish")
"""Callers of the model that are neither the lead nor a child."""


def _part(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = value.get(name)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _tokens(part: Any) -> int:
    if not isinstance(part, Mapping):
        return 0
    tokens = cast("Mapping[str, Any]", part)
    return int(tokens.get("input", 0)) + int(tokens.get("output", 0))
