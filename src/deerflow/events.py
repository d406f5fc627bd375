"""The events of a run: what is appended to the log that stream, history, UI and audit read.

Source of the shapes: ARCHITECTURE.md, "the event log". Every event has a per-thread gapless `seq`,
given at commit; payloads are JSON and hold no host path and no secret. Events of a child carry
its `task_id` beside the fields below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

EventType = Literal[
    "run_queued",  # {input, strategy, not_before}: accepted; waits for a worker
    "run_started",  # {input, resumed, model, plan?, max_turns?, expect?}: begins, or goes on
    "message",  # {message}: a finished human, ai or tool message, see `agent.record.shown`
    "model_started",  # {turn, message_id}: the model is asked; its message will have this id
    "model_completed",  # {turn, model, message_id, usage, finish_reason, replayed}: answered
    "model_retry",  # {model, attempt, code, message, wait_seconds, next_model, message_id?, text?}: failed; text is what was seen of a reply that was cut off
    "usage",  # {caller, model, usage}: a call beside the turns was paid (a summary, a title)
    "tool_started",  # {tool_call_id, name, args}: a call begins, or is refused in its place
    "tool_completed",  # {tool_call_id, name, status}: status is success or error
    "audit",  # {user_id, agent, tool_call_id, tool, target, sha256, verdict}: digest, no content
    "todos",  # {todos}: the plan has changed
    "artifacts",  # {artifacts}: virtual paths, in order
    "title",  # {title}: the thread has a name
    "question",  # {question, options, fields, context}: a clarification; fields make a form
    "guard",  # {rule, used, limit, message, detail?, action?}: a limit warned, refused or stopped
    "notice",  # {message}: something the user should see
    "task_started",  # {task_id, tool_call_id, description, subagent_type, model}: a child begins
    "task_running",  # {task_id, message}: a message of a child
    "task_completed",  # {task_id, status, result, stop_reason, turns, usage}: with what it has
    "task_failed",  # {task_id, status, result, stop_reason, turns, usage, error}: by an error
    "task_timed_out",  # {task_id, status, result, stop_reason, turns, usage, error}: its clock
    "task_cancelled",  # {task_id, status, result, stop_reason, turns, usage}: stopped from outside
    "batch_progress",  # {batch_id, tool_call_id, done, failed, waiting, total}: items so far
    "approval_requested",  # {approval_id, tool_call_id, tool, args, reason, default, expires_at}: a call waits for a human
    "approval_decided",  # {approval_id, tool, status, by, note, edited}: once for each
    "compacted",  # {upto, messages, tokens_before, tokens_after, manual}: a summary took over
    "goal",  # {objective, status, continuation_count, max_continuations, reason, run_id}: changed
    "verification",  # {state, accepted, attempts, validator_answer, feedback, error?}: of the answer, by somebody who saw the task alone
    "skill",  # {name, by}: activated by the user or the model
    "memory_queued",  # {entry_id}: the exchange waits for extraction
    "cancel_requested",  # {action}: somebody asked for the run's end: interrupt or rollback
    "handed_over",  # {reason}: its worker stops or died; another goes on with the run
    "workspace_changes",  # {summary, files}: what the run changed in workspace and outputs
    "run_ended",  # {status, outcome, usage, error, artifacts, at}: always the last
]

TASK_EVENTS = frozenset(
    {"task_started", "task_completed", "task_failed", "task_timed_out", "task_cancelled"}
)
"""What tells the state of a child; the newest of them counts."""


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
