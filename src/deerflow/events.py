"""The events of a run: what is appended to the log that stream, history, UI and audit read.

Source of the shapes: ARCHITECTURE.md, "the event log". Every event has a per-thread gapless `seq`,
given at commit; payloads are JSON and hold no host path and no secret.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

EventType = Literal[
    "run_started",  # {input, resumed, model, plan?, max_turns?, expect?}: begins, or goes on
    "message",  # {message}: a finished human, ai or tool message, see `agent.record.shown`
    "model_started",  # {turn, message_id}: the model is asked; its message will have this id
    "model_completed",  # {turn, model, message_id, usage, finish_reason, replayed}: answered
    "model_retry",  # {model, attempt, code, message, wait_seconds, next_model, message_id?}: failed
    "tool_started",  # {tool_call_id, name, args}: a call begins, or is refused in its place
    "tool_completed",  # {tool_call_id, name, status}: status is success or error
    "audit",  # {user_id, agent, tool_call_id, tool, target, sha256, verdict}: digest, no content
    "todos",  # {todos}: the plan has changed
    "artifacts",  # {artifacts}: virtual paths, in order
    "title",  # {title}: the thread has a name
    "question",  # {question, options, context}: a clarification
    "guard",  # {rule, used, limit, message, detail?, action?}: a limit warned, refused or stopped
    "notice",  # {message}: something the user should see
    "run_ended",  # {status, outcome, usage, error, artifacts, at}: always the last
]


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of a thread's log.

    Attributes:
        seq: per-thread, gapless, from 1.
        type: one of EventType.
        run_id: the run that wrote it.
        thread_id: the client's thread id.
        created_at: UTC seconds since the epoch, from the writer's clock.
        payload: JSON object; its fields are listed beside each type above, with "?" those that
            may be absent.
    """

    seq: int
    type: str
    run_id: str
    thread_id: str
    created_at: float
    payload: dict[str, Any]


RunStatus = Literal["pending", "running", "success", "error", "interrupted", "timeout", "cancelled"]
OutcomeKind = Literal[
    "answered", "empty", "deliverable_missing", "waiting_for_human", "limit_reached"
]
