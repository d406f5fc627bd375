"""What a run is asked for and what it ends with."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from deerflow.events import OutcomeKind, RunStatus
from deerflow.runtime.goals import SessionGoal

if TYPE_CHECKING:  # commands that start no run load no LangChain
    from langchain_core.messages import AnyMessage

LOCAL_USER = "local"
"""Owner of runs that are started from this machine's terminal or library."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A task for the lead agent.

    Attributes:
        task: the user's words; "" only with `resume` or `goal`.
        thread_id: an existing or new thread; None starts a new one.
        user_id: owner of the thread.
        model: configured name, None for the default.
        uploads: host files to copy into the thread's uploads.
        expect: deliverables below outputs beside those that the task names.
        plan: plan mode.
        max_turns: model turns, None takes the configured number.
        resume: continue the thread's last run where it stopped.
        goal: what the session pursues after this task, see `runtime.goals`; without a task it is
            the task.
        agent_name: custom agent that leads, "" for the built-in one.
        delegate: whether the lead may hand work to children; None = as configured.
        verify: whether the answer is verified by somebody else; None = as configured.
        message: the task's message as a client sent it: {content, additional_kwargs?, id?};
            content is text or a list of parts. `task` is its text then.
        earlier: messages that a client sent before it in the same request, same shape.
        checkpoint_id: run from this checkpoint of the thread instead of its newest.
        context: what the client asks of this run: mode, thinking_enabled, reasoning_effort, ….
    """

    task: str = ""
    thread_id: str | None = None
    user_id: str = LOCAL_USER
    model: str | None = None
    uploads: tuple[Path, ...] = ()
    expect: tuple[str, ...] = ()
    plan: bool = False
    max_turns: int | None = None
    resume: bool = False
    goal: str | SessionGoal | None = None
    agent_name: str = ""
    delegate: bool | None = None
    verify: bool | None = None
    message: dict[str, Any] | None = None
    earlier: tuple[dict[str, Any], ...] = ()
    checkpoint_id: str | None = None
    context: dict[str, Any] = field(default_factory=dict[str, Any])

    def to_dict(self) -> dict[str, Any]:
        """As a JSON object, for the row of a run that somebody else executes."""
        found = {item.name: getattr(self, item.name) for item in fields(self)}
        found["uploads"] = [str(path) for path in self.uploads]
        if isinstance(self.goal, SessionGoal):
            found["goal"] = asdict(self.goal)
        return found

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RunRequest:
        """The request that `to_dict` gave; keys of newer versions are left out."""
        known = {item.name for item in fields(cls)}
        found = {key: value for key, value in data.items() if key in known}
        found["uploads"] = tuple(Path(path) for path in found.get("uploads", ()))
        for name in ("expect", "earlier"):
            found[name] = tuple(found.get(name, ()))
        goal = found.get("goal")
        if isinstance(goal, dict):
            found["goal"] = SessionGoal(**cast("dict[str, Any]", goal))
        return cls(**found)


@dataclass(frozen=True, slots=True)
class Artifact:
    """A delivered file: virtual path, host path, size in bytes."""

    path: str
    host: Path
    size: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended for the person who asked.

    Attributes:
        kind: answered, empty, deliverable_missing, waiting_for_human or limit_reached.
        detail: rule, used and limit; the names of missing files; or the question with its options;
            and `verification`, as in the event, where the answer was verified.
    """

    kind: OutcomeKind
    detail: dict[str, Any] = field(default_factory=dict[str, Any])

    def to_dict(self) -> dict[str, Any]:
        """As stored and as in the event."""
        return {"kind": self.kind, **self.detail}


@dataclass(frozen=True, slots=True)
class RunResult:
    """The end of a run.

    Attributes:
        run_id: the run.
        thread_id: the client's thread id.
        status: of the run.
        outcome: None when it failed or was stopped.
        text: the last visible text, or "".
        artifacts: delivered files in order.
        usage: tokens and cost by model, as in the run_ended event.
        error: {code, message, cure} or None.
        messages: of this run, the task first.
        goal: of the session, as in the state, or None.
    """

    run_id: str
    thread_id: str
    status: RunStatus
    outcome: Outcome | None
    text: str
    artifacts: tuple[Artifact, ...] = ()
    usage: dict[str, Any] = field(default_factory=dict[str, Any])
    error: dict[str, Any] | None = None
    messages: tuple[AnyMessage, ...] = ()
    goal: dict[str, Any] | None = None
