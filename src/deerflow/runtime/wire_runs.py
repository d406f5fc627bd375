"""What a client asks of a run, in the fields of LangGraph's clients, made into our request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from deerflow.config.schema import AppConfig
from deerflow.errors import UsageError
from deerflow.runtime.request import RunRequest
from deerflow.runtime.wire_messages import messages_of, text_of

LEAD = "lead_agent"
"""Name of the built-in agent on the wire."""
EFFORTS = ("minimal", "low", "medium", "high", "xhigh")
MODES = ("flash", "thinking", "pro", "ultra")
KEPT = frozenset(
    {
        "model_name",
        "mode",
        "thinking_enabled",
        "reasoning_effort",
        "is_plan_mode",
        "subagent_enabled",
        "max_concurrent_subagents",
        "max_total_subagents",
        "agent_name",
        "is_bootstrap",
        "disable_clarification",
    }
)
"""Keys of a context that are honoured. All others are left out of what is stored: `secrets` and
`github_token` among them, which are never written or logged."""
MOST_CHILDREN = 64
ATTACHED = "(attachments)"
"""Task of a message without words."""


@dataclass(frozen=True, slots=True)
class ClientRun:
    """The fields of a run's request that decide what is executed.

    Attributes:
        assistant_id: None or "lead_agent" for the built-in agent, else a custom one.
        input: {"messages": …}, or None with `command`.
        command: {"resume": value}.
        config: recursion_limit, and configurable as an older way of context.
        context: see KEPT.
        checkpoint_id: run from this checkpoint.
        checkpoint: the same as an object.
    """

    assistant_id: str | None = None
    input: Any = None
    command: Mapping[str, Any] | None = None
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])
    checkpoint_id: str | None = None
    checkpoint: Mapping[str, Any] | None = None

    @property
    def resumes(self) -> bool:
        """Whether it answers what waits in the thread, see `Submissions.resume`."""
        return self.command is not None and "resume" in self.command

    @property
    def answer(self) -> Any:
        """The value of `command.resume`."""
        return (self.command or {}).get("resume")


def request_of(
    run: ClientRun, *, user_id: str, thread_id: str | None, config: AppConfig
) -> RunRequest:
    """The request that a client's fields amount to.

    Args:
        run: the fields.
        user_id: who asks.
        thread_id: of the path; None starts a new thread.
        config: for limits and whether children may be had.

    Raises:
        UsageError: a field of the wrong form, or an unknown model's place (see `submit` for its
            existence).
    """
    asked = context_of(run)
    messages = [] if run.resumes else _messages(run.input)
    last = messages[-1] if messages else None
    delegate = asked.get("subagent_enabled")
    return RunRequest(
        task=_task(last) if last is not None else "",
        thread_id=thread_id,
        user_id=user_id,
        model=asked.get("model_name"),
        plan=bool(asked.get("is_plan_mode")),
        max_turns=_turns(run.config, config),
        agent_name=_agent(run, asked),
        delegate=delegate if delegate is None else delegate and config.subagents.enabled,
        message=last,
        earlier=tuple(messages[:-1]),
        checkpoint_id=_checkpoint(run),
        context=asked,
    )


def context_of(run: ClientRun) -> dict[str, Any]:
    """What the client asks of the run itself: known keys, checked; the older place counts less.

    Raises:
        UsageError: a value of the wrong form.
    """
    merged: dict[str, Any] = {}
    for name in ("configurable", "context"):
        place: Any = run.config.get(name)
        if place is not None and not isinstance(place, Mapping):
            raise UsageError(f"config.{name} is an object.")
        merged |= cast("Mapping[str, Any]", place or {})
    merged |= run.context
    found = {key: value for key, value in merged.items() if key in KEPT and value is not None}
    for key, value in found.items():
        _CHECKS[key](key, value)
    if "mode" in found:
        found = {**_MODE[found["mode"]], **found}
    return found


def _flag(key: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise UsageError(f"context.{key} is true or false.")


def _name(key: str, value: Any) -> None:
    if not isinstance(value, str) or not 0 < len(value) <= 255:
        raise UsageError(f"context.{key} is text of 1 to 255 characters.")


def _count(key: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_CHILDREN:
        raise UsageError(f"context.{key} is a number from 1 to {MOST_CHILDREN}.")


def _mode(key: str, value: Any) -> None:
    if value not in MODES:
        raise UsageError(f"context.{key} is one of {', '.join(MODES)}.")


def _effort(key: str, value: Any) -> None:
    if value not in EFFORTS:
        raise UsageError(f"context.{key} is one of {', '.join(EFFORTS)}.")


_CHECKS = {
    "model_name": _name,
    "mode": _mode,
    "thinking_enabled": _flag,
    "reasoning_effort": _effort,
    "is_plan_mode": _flag,
    "subagent_enabled": _flag,
    "max_concurrent_subagents": _count,
    "max_total_subagents": _count,
    "agent_name": _name,
    "is_bootstrap": _flag,
    "disable_clarification": _flag,
}
_MODE: dict[str, dict[str, Any]] = {
    "flash": {"thinking_enabled": False},
    "thinking": {"thinking_enabled": True, "reasoning_effort": "low"},
    "pro": {"thinking_enabled": True, "reasoning_effort": "medium", "is_plan_mode": True},
    "ultra": {
        "thinking_enabled": True,
        "reasoning_effort": "high",
        "is_plan_mode": True,
        "subagent_enabled": True,
    },
}
"""What a mode stands for; keys that the client names itself count more."""


def _messages(given: Any) -> list[dict[str, Any]]:
    """The messages of an input; the last one is the task."""
    if isinstance(given, Mapping):
        given = cast("Mapping[str, Any]", given).get("messages")
    if given is None or given == []:
        raise UsageError(
            "The input has no message.", cure='Send {"messages": [{"role": "user", "content": …}]}.'
        )
    messages = messages_of(given)
    if messages[-1]["type"] != "human":
        raise UsageError("The last message of an input is the user's.")
    return messages


def _task(message: Mapping[str, Any]) -> str:
    """The words of the task; a message of nothing but files and images has some of its own."""
    text = text_of(message["content"])
    if text.strip():
        return text
    extra: dict[str, Any] = message.get("additional_kwargs") or {}
    content: Any = message["content"]
    parts = cast("list[Any]", content) if isinstance(content, list) else []
    other = any(not isinstance(part, str) and part["type"] != "text" for part in parts)
    return ATTACHED if other or extra.get("files") else text


def _agent(run: ClientRun, asked: Mapping[str, Any]) -> str:
    name = run.assistant_id
    if name in (None, "", LEAD):
        name = asked.get("agent_name")
    return "" if name in (None, LEAD) or asked.get("is_bootstrap") else str(name)


def _turns(config: Mapping[str, Any], whole: AppConfig) -> int | None:
    """LangGraph's recursion_limit, taken as model turns: it may lower the configured number."""
    limit = config.get("recursion_limit")
    if limit is None:
        return None
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise UsageError("config.recursion_limit is a whole number.")
    return None if limit >= whole.max_turns else max(1, limit)


def _checkpoint(run: ClientRun) -> str | None:
    place: Any = run.checkpoint or {}
    found = run.checkpoint_id or place.get("checkpoint_id")
    if found is not None and not isinstance(found, str):
        raise UsageError("checkpoint_id is text.")
    return found
