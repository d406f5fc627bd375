"""What the lead reads of its children: results, answers from the ledger, and what was cancelled."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage
from langgraph.types import Command

from deerflow.agent.context import RunContext
from deerflow.agent.state import TaskState
from deerflow.middlewares.subagent_limit import TASK
from deerflow.middlewares.token_usage import CHILD_USAGE
from deerflow.subagents.ledger import brief, entered, full_result, known, twin
from deerflow.subagents.runner import ChildResult

STOPPED = (
    "Cancelled: the run was stopped before this child was done. What it wrote to files is still "
    "there; delegate the task again if it is still wanted."
)
_WHAT_NEXT = "Do it yourself, or delegate it again in another way."


class TaskAnswers:
    """Answers `task` calls for which no child is run; see row 13."""

    def repeated(
        self, state: Mapping[str, Any], turn: AIMessage, call: ToolCall
    ) -> ToolMessage | None:
        """The answer to a call that asks what another one asked, None when it is new.

        Args:
            state: of the lead's thread.
            turn: the message that holds the call.
            call: of the tool `task`.
        """
        other = twin(turn, call)
        if other is not None:
            return _answer(
                call,
                f"Not run a second time: the call {other['id']} of this turn asks the same, its "
                "result answers both.",
                {"subagent_status": "completed", "subagent_same_as": other["id"]},
            )
        entry = known(state, call)
        return None if entry is None else _from_ledger(call, entry, state.get("messages", ()))

    def cancelled(self, state: Mapping[str, Any], call: ToolCall, run: RunContext) -> Command[Any]:
        """The answer to a call of a stopped run, its end in the log, and its ledger entry."""
        task_id = call["id"] or ""
        if run.tasks.get(task_id) != "task_cancelled":
            tell_cancelled(run, task_id)
        return conclude(state, call, ChildResult("cancelled", ""), run)


def tell_cancelled(run: RunContext, task_id: str, usage: dict[str, Any] | None = None) -> None:
    """Log that a child was stopped from outside."""
    tell(run, task_id, ChildResult("cancelled", "", usage=usage or {}))


def tell(run: RunContext, task_id: str, result: ChildResult) -> None:
    """Log how a child ended, once.

    Args:
        run: the lead's.
        task_id: the child's.
        result: how it ended.
    """
    kind = f"task_{result.status}"
    if run.tasks.get(task_id) == kind:
        return
    run.tasks[task_id] = kind
    payload: dict[str, Any] = {
        "task_id": task_id,
        "status": result.status,
        "result": brief(result.text),
        "stop_reason": result.stop_reason,
        "turns": result.turns,
        "usage": result.usage,
    }
    if result.status in ("failed", "timed_out"):
        payload["error"] = result.error
    run.emit(kind, payload)


def conclude(
    state: Mapping[str, Any], call: ToolCall, result: ChildResult, run: RunContext, model: str = ""
) -> Command[Any]:
    """The result of a call whose child ended, with its entry in the ledger.

    Args:
        state: of the lead's thread.
        call: of the tool `task`.
        result: how the child ended.
        run: the lead's.
        model: configured name of the child's model, "" when none was asked.
    """
    args, text = call["args"], _text(result)
    extra: dict[str, Any] = {
        "subagent_status": result.status,
        **_digested(result.text),
        "subagent_token_usage": _totals(result.usage),
        CHILD_USAGE: result.usage,
    }
    if model:
        extra["subagent_model_name"] = model
    if result.stop_reason:
        extra["subagent_stop_reason"] = result.stop_reason
    if result.error is not None:
        extra["subagent_error"] = _said(result.error)
    entry = TaskState(
        task_id=call["id"] or "",
        description=str(args.get("description", "")),
        prompt="",
        subagent_type=str(args.get("subagent_type", "")),
        status=result.status,
        result=result.text,
        run_id=run.run_id,
    )
    message = _answer(call, text, extra, failed=result.status != "completed")
    update = entered(state, entry, str(args.get("prompt", "")))
    return Command(update={"messages": [message], **update})


def _text(result: ChildResult) -> str:
    """What the lead reads: the child's answer, or how it ended and what can be done."""
    if result.status == "completed":
        return result.text
    if result.status == "cancelled":
        return STOPPED
    had = f"\n\nWhat it had:\n{result.text}" if result.text else ""
    error = result.error or {"code": "error", "message": "The child failed.", "cure": ""}
    status = result.status.replace("_", " ")
    return f"Child {status} ({error['code']}): {_said(error)} {_WHAT_NEXT}{had}"


def _said(error: Mapping[str, Any]) -> str:
    return f"{error['message']} {error['cure']}".strip()


def _from_ledger(call: ToolCall, entry: TaskState, messages: Any) -> ToolMessage:
    held: list[AnyMessage] = list(messages)
    result = full_result(held, entry)
    text = (
        f"From the ledger, no child was run: task {entry['task_id']} asked the same and was "
        "completed. For a fresh run say in the prompt what differs or what has changed since. "
        f"Its result:\n\n{result}"
    )
    extra = {
        "subagent_status": "completed",
        "subagent_same_as": entry["task_id"],
        **_digested(result),
    }
    return _answer(call, text, extra)


def _digested(text: str) -> dict[str, Any]:
    return {
        "subagent_result_brief": brief(text),
        "subagent_result_sha256": hashlib.sha256(text.encode("utf-8", "replace")).hexdigest(),
    }


def _totals(usage: Mapping[str, Any]) -> dict[str, int]:
    """Usage as clients read it."""
    total: Mapping[str, Any] = usage.get("total") or {}
    names = {"input_tokens": "input", "output_tokens": "output", "total_tokens": "total"}
    return {name: int(total.get(key, 0)) for name, key in names.items()}


def _answer(
    call: ToolCall, text: str, extra: Mapping[str, Any], *, failed: bool = False
) -> ToolMessage:
    return ToolMessage(
        content=text,
        name=TASK,
        tool_call_id=call["id"] or "",
        status="error" if failed else "success",
        additional_kwargs=dict(extra),
    )
