"""The state of a thread: what the checkpoint holds, with the reducer of each channel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    TypedDict,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from langchain.agents import AgentState
from langchain_core.messages import AnyMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph.message import (
    _messages_delta_reducer as messages_delta_reducer,  # pyright: ignore[reportPrivateUsage]
)

SNAPSHOT_FREQUENCY = 50
"""Updates between message snapshots (measured best of 10–1000; the saver thins them further)."""


class SandboxState(TypedDict, total=False):
    """What survives of a sandbox: current virtual directory per agent."""

    cwd: dict[str, str]


class ThreadDataState(TypedDict, total=False):
    """Virtual folders of the thread (constants today, kept for clients that read them)."""

    workspace_path: str
    uploads_path: str
    outputs_path: str


class UploadedFile(TypedDict):
    """One upload: name, virtual path, size in bytes, sha256, modification time in ns."""

    name: str
    path: str
    size: int
    sha256: str
    modified: NotRequired[int]


class ViewedImage(TypedDict):
    """An image that the model looked at: blob digest, media type, size in bytes."""

    sha256: str
    media_type: str
    size: int


class Todo(TypedDict):
    """One entry of the plan."""

    content: str
    status: Literal["pending", "in_progress", "completed"]


class TaskState(TypedDict):
    """One delegation in the ledger: what a child was asked, and how it ended.

    status is completed, failed, cancelled or timed_out; `result` is its text, cut to a brief.
    """

    task_id: str
    description: str
    prompt: str
    subagent_type: str
    status: str
    result: str
    run_id: str


class CompactionState(TypedDict):
    """How the request to the model is built; the messages themselves are never shortened.

    Attributes:
        upto: id of the last message that the summary stands for; a call includes its results.
        summary: prose of everything up to there.
        kept: ids of messages up to there that are sent all the same, in order.
        count: compactions so far.
        words: what the user said up to there, rendered.
        facts: delegations and files up to there, rendered.
        files: virtual paths of the transcripts of what is summarised, oldest first.
        seen: id of the last message that was there at the compaction.
        cut: results up to `seen` that are longer than so many characters are shown as head and
            tail; 0 for none.
    """

    upto: str
    summary: str
    kept: list[str]
    count: int
    words: str
    facts: str
    files: list[str]
    seen: str
    cut: int


class GoalState(TypedDict):
    """The goal of a session.

    Attributes:
        objective: the user's words.
        status: active, done, blocked, exhausted or stalled.
        continuation_count: continuations so far.
        max_continuations: at most so many.
        reason: of the evaluator's last verdict, for people.
        run_id: the run that pursues it.
    """

    objective: str
    status: str
    continuation_count: int
    max_continuations: int
    reason: str
    run_id: str


class MemoryState(TypedDict):
    """What of the memory a request is shown with: id of its message, and the text."""

    request: str
    text: str


def merge_artifacts(old: list[str] | None, new: Sequence[str] | None) -> list[str]:
    """Virtual paths in order of first appearance, without repeats."""
    return list(dict.fromkeys([*(old or ()), *(new or ())]))


def merge_mapping(old: dict[str, Any] | None, new: dict[str, Any] | None) -> dict[str, Any]:
    """Later keys win; a value of None removes its key."""
    merged = {**(old or {}), **(new or {})}
    return {key: value for key, value in merged.items() if value is not None}


def merge_sandbox(old: SandboxState | None, new: SandboxState | None) -> SandboxState:
    """Current directories of agents, later ones win."""
    return {"cwd": {**(old or {}).get("cwd", {}), **(new or {}).get("cwd", {})}}


def replace(old: Any, new: Any) -> Any:
    """The newest write wins; several in one step keep the last (parallel tools may write)."""
    del old
    return new


class ThreadState(AgentState[Any]):
    """State of the lead agent's graph."""

    messages: Annotated[  # pyright: ignore[reportIncompatibleVariableOverride]
        list[AnyMessage],
        DeltaChannel(cast(Any, messages_delta_reducer), snapshot_frequency=SNAPSHOT_FREQUENCY),
    ]
    sandbox: NotRequired[Annotated[SandboxState, merge_sandbox]]
    thread_data: NotRequired[Annotated[ThreadDataState, replace]]
    title: NotRequired[Annotated[str, replace]]
    artifacts: NotRequired[Annotated[list[str], merge_artifacts]]
    todos: NotRequired[Annotated[list[Todo], replace]]
    uploaded_files: NotRequired[Annotated[list[UploadedFile], replace]]
    viewed_images: NotRequired[Annotated[dict[str, ViewedImage], merge_mapping]]
    files_read: NotRequired[Annotated[dict[str, str], merge_mapping]]
    """Virtual path → sha256 of the version that the model has read (row 20)."""
    delegations: NotRequired[Annotated[dict[str, TaskState], merge_mapping]]
    """task_id → what was delegated: the ledger, untouched by compaction."""
    compaction: NotRequired[Annotated[CompactionState | None, replace]]
    goal: NotRequired[Annotated[GoalState | None, replace]]
    memory: NotRequired[Annotated[MemoryState | None, replace]]
    """Only the newest request's: earlier ones are sent without (row 7)."""
    active_skills: NotRequired[Annotated[dict[str, str], merge_mapping]]
    """Name of a skill that is active → its virtual folder (row 8)."""
    promoted_tools: NotRequired[Annotated[list[str], merge_artifacts]]
    """Deferred tools that `tool_search` has brought in (row 11)."""


def _fold_messages(old: list[AnyMessage] | None, new: list[AnyMessage]) -> list[AnyMessage]:
    return messages_delta_reducer(old or [], [new])


def _reducers() -> dict[str, Any]:
    """Channel → (state, update) → state, read off the annotations of ThreadState."""
    found: dict[str, Any] = {}
    for name, hint in get_type_hints(ThreadState, include_extras=True).items():
        while get_origin(hint) in (NotRequired, Required):
            hint = get_args(hint)[0]
        if get_origin(hint) is Annotated:
            reducer = hint.__metadata__[-1]
            if isinstance(reducer, DeltaChannel):
                found[name] = _fold_messages
            elif callable(reducer) and not isinstance(reducer, type):
                found[name] = reducer
    return found


_REDUCERS = _reducers()


def apply_update(state: dict[str, Any], update: dict[str, Any]) -> dict[str, Any]:
    """A copy of the state with an update folded in by each channel's reducer."""
    merged = dict(state)
    for key, value in update.items():
        reducer = _REDUCERS.get(key)
        merged[key] = reducer(merged.get(key), value) if reducer is not None else value
    return merged
