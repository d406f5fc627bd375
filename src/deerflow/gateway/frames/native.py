"""The modes in which LangGraph describes its own work: tools, tasks, events and debug."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deerflow.events import Event
from deerflow.gateway.frames.modes import Wanted
from deerflow.gateway.wire import iso, message_dict

NATIVE = ("tools", "tasks", "events", "debug")

_NAMES = {
    "run_started": "on_chain_start",
    "run_ended": "on_chain_end",
    "model_started": "on_chat_model_start",
    "tool_started": "on_tool_start",
}


def native(event: Event, wanted: Wanted, step: int) -> list[tuple[str, str, Any]]:
    """(rank, frame, payload) of an event in those of the modes that are wanted."""
    if not any(mode in wanted for mode in NATIVE) or "task_id" in event.payload:
        return []
    found: list[tuple[str, str, Any]] = []
    if "tools" in wanted and (tool := tool_event(event)) is not None:
        found.append(("TOOLS", "tools", tool))
    task = _task(event)
    if task is not None and "tasks" in wanted:
        found.append(("TASKS", "tasks", task))
    if "events" in wanted:
        found.append(("EVENTS", "events", _named(event)))
    if task is not None and "debug" in wanted:
        payload = {
            "step": step,
            "timestamp": iso(event.created_at),
            "type": "task_result" if "result" in task else "task",
            "payload": task,
        }
        found.append(("DEBUG", "debug", payload))
    return found


def tool_event(event: Event) -> dict[str, Any] | None:
    """A call that begins, or its result, as the JavaScript client's `tools` mode has it."""
    payload = event.payload
    if event.type == "tool_started":
        return {
            "event": "on_tool_start",
            "toolCallId": payload["tool_call_id"],
            "name": payload["name"],
            "input": payload.get("args"),
        }
    message = _tool_message(event)
    if message is None:
        return None
    head = {"toolCallId": message["tool_call_id"], "name": message.get("name", "")}
    if message.get("status") == "error":
        return {"event": "on_tool_error", **head, "error": message["content"]}
    return {"event": "on_tool_end", **head, "output": message}


def _task(event: Event) -> dict[str, Any] | None:
    payload = event.payload
    if event.type == "model_started":
        return {
            "id": payload["message_id"],
            "name": "model",
            "input": None,
            "triggers": ["branch:to:model"],
            "interrupts": [],
        }
    if event.type == "tool_started":
        given = {"name": payload["name"], "args": payload.get("args")}
        return {
            "id": payload["tool_call_id"],
            "name": "tools",
            "input": given,
            "triggers": ["__pregel_push"],
            "interrupts": [],
        }
    if event.type != "message" or payload["message"]["type"] not in ("ai", "tool"):
        return None
    message = message_dict(payload["message"])
    tool = message["type"] == "tool"
    failed = tool and message.get("status") == "error"
    return {
        "id": message["tool_call_id"] if tool else message["id"],
        "name": "tools" if tool else "model",
        "error": message["content"] if failed else None,
        "result": {"messages": [message]},
        "interrupts": [],
    }


def _named(event: Event) -> dict[str, Any]:
    """An event of the log in the frame of LangChain's event stream."""
    payload = event.payload
    head: dict[str, Any] = {"run_id": event.run_id, "tags": [], "parent_ids": []}
    metadata = {"thread_id": event.thread_id, "seq": event.seq}
    name, data = _NAMES.get(event.type, "on_custom_event"), dict[str, Any](payload)
    source = event.type
    if event.type == "message" and payload["message"]["type"] == "ai":
        name, source = "on_chat_model_end", "model"
        data = {"output": message_dict(payload["message"])}
    elif (message := _tool_message(event)) is not None:
        name, source = "on_tool_end", str(message.get("name", ""))
        data = {"output": message}
    elif event.type == "tool_started":
        source, data = str(payload["name"]), {"input": payload.get("args")}
    elif event.type == "model_started":
        source = "model"
    elif event.type in ("run_started", "run_ended"):
        source = "lead_agent"
    return {"event": name, "name": source, **head, "metadata": metadata, "data": data}


def _tool_message(event: Event) -> Mapping[str, Any] | None:
    if event.type == "message" and event.payload["message"]["type"] == "tool":
        return message_dict(event.payload["message"])
    return None
