"""The seam of policy: one question per tool call, answered allow, deny or ask."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

EVALUATE_SECONDS = 10.0
"""Seconds that a provider may take for a verdict; more counts as a failure."""


@dataclass(frozen=True, slots=True)
class Action:
    """A tool call that is about to happen.

    Attributes:
        tool: name of the tool.
        args: as the model gave them, or as a human edited them; whole, however long.
        user_id: owner of the thread.
        thread_id: the client's thread id.
        run_id: the run.
        agent: "lead" or the child's name.
        sandbox: whether it works in the sandbox.
    """

    tool: str
    args: dict[str, Any]
    user_id: str
    thread_id: str
    run_id: str
    agent: str
    sandbox: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of a provider.

    Attributes:
        decision: allow runs the call, deny answers it with `reason`, ask waits for a human.
        reason: for the model and the human.
        policy: name of the rule that decided, for the audit.
        expires_seconds: with ask: seconds after which `default` holds; None = never.
        default: with ask: what expiry means.
    """

    decision: Literal["allow", "deny", "ask"]
    reason: str = ""
    policy: str = ""
    expires_seconds: float | None = None
    default: Literal["deny", "allow"] = "deny"


@runtime_checkable
class GuardrailProvider(Protocol):
    """Decides over tool calls.

    One whose class says `instant = True` never waits for anything: it is asked without a task and
    without a time limit.
    """

    name: str

    async def evaluate(self, action: Action) -> Verdict:
        """The verdict on an action, within EVALUATE_SECONDS.

        Whatever it raises counts as a failure (see `guardrails.fail_closed`). It is asked once for
        a call; again only when a kill came before the call began, or when a human edited the call.
        """
        ...


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the allowlist: tools by name or glob, arguments by glob.

    Attributes:
        tools: names or globs ("bash", "mcp_*").
        decision: what holds when it matches.
        args: argument name or glob → glob over its text; all must match, {} matches every call.
        reason: for people.
        expires_seconds: with ask.
        default: with ask.
    """

    tools: tuple[str, ...]
    decision: Literal["allow", "deny", "ask"]
    args: dict[str, str] = field(default_factory=dict[str, str])
    reason: str = ""
    expires_seconds: float | None = None
    default: Literal["deny", "allow"] = "deny"
