"""What a message looks like in the event log: everything a reader needs, nothing opaque."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

if TYPE_CHECKING:
    from deerflow.storage.protocol import Storage

THINKING = "~thinking"
"""Ends the message id of deltas that are hidden reasoning."""

_SHOWN = (
    "uploads",
    "deerflow_limit",
    "deerflow_empty",
    "deerflow_refused",
    "subagent_status",
    "subagent_stop_reason",
    "subagent_error",
    "subagent_result_brief",
    "subagent_result_sha256",
    "subagent_model_name",
    "subagent_token_usage",
    "deerflow_batch",
    "deerflow_stopped",
    "reasoning_content",
    "files",
    "hide_from_ui",
    "human_input_response",
    "client_id",
)


def shown(message: AnyMessage) -> dict[str, Any]:
    """Fields of a message as clients read them: type, id, content, calls, usage, status.

    Provider-private fields (signatures, thinking blocks) stay in the checkpoint alone.
    """
    record: dict[str, Any] = {"type": message.type, "id": message.id, "content": _content(message)}
    if message.name:
        record["name"] = message.name
    if isinstance(message, AIMessage):
        if message.tool_calls:
            record["tool_calls"] = [
                {"id": c["id"], "name": c["name"], "args": c["args"]} for c in message.tool_calls
            ]
        if message.usage_metadata:
            record["usage_metadata"] = message.usage_metadata
        finish = message.response_metadata.get("finish_reason")
        if finish:
            record["finish_reason"] = finish
    if isinstance(message, ToolMessage):
        record["tool_call_id"] = message.tool_call_id
        record["status"] = message.status
        asked: Any = message.artifact
        if isinstance(asked, dict) and "human_input" in asked:
            record["artifact"] = {"human_input": asked["human_input"]}
    extra = {
        key: message.additional_kwargs[key] for key in _SHOWN if key in message.additional_kwargs
    }
    if extra:
        record["additional_kwargs"] = extra
    return record


def _content(message: AnyMessage) -> Any:
    content: Any = message.content
    if isinstance(content, str):
        return content
    kept = [
        part
        for part in content
        if isinstance(part, str) or part.get("type") in ("text", "image_url", "image")
    ]
    return (
        message.text if all(isinstance(p, str) or p.get("type") == "text" for p in kept) else kept
    )


def visible_text(message: AnyMessage) -> str:
    """The text that a user sees of a message, stripped."""
    return str(message.text).strip()


def drop_deltas(storage: Storage, run_id: str, message_id: str, *, thought: bool = True) -> None:
    """Drop the pieces of a message: it is finished, or void.

    Args:
        storage: that has them.
        run_id: the run that wrote it.
        message_id: of it.
        thought: whether it may have pieces of reasoning.
    """
    storage.deltas.finish(run_id, message_id)
    if thought:
        storage.deltas.finish(run_id, message_id + THINKING)
