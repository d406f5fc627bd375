"""Goals of a session: what is pursued, the command that sets it, and how a verdict is read."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from deerflow.errors import UsageError

if TYPE_CHECKING:  # commands that start no run load no LangChain
    from langchain_core.messages import AnyMessage

    from deerflow.agent.state import GoalState

MOST_CONTINUATIONS = 8
LONGEST = 4_000
"""Characters of a goal: it is repeated with each continuation."""
IDLE_CONTINUATIONS = 2
"""Continuations in a row that may bring nothing new; then the goal is stalled."""

WARNING = "\n\n[loop_detection] "
"""Begins what row 14 adds below a result: nothing new. (Its own constant costs the start of every
command half a second of imports.)"""

CONTINUATION = "deerflow_goal"
"""additional_kwargs of the message that begins a continuation: its number, from 1."""

_COMMAND = re.compile(r"/goal(?!\S)", re.IGNORECASE)
_UNSENDABLE = re.compile("[\x00\ud800-\udfff]")
"""NUL is refused by databases, half a surrogate pair by every encoder."""

Kind = Literal["done", "continue", "blocked"]


@dataclass(frozen=True, slots=True)
class SessionGoal:
    """An objective that the agent pursues beyond its first answer.

    Attributes:
        description: what is to be reached, in the user's words.
        max_continuations: times that the agent is sent on, 1 to 8.

    Raises:
        UsageError: no words, too many, signs that are no text, or a number out of range.
    """

    description: str
    max_continuations: int = MOST_CONTINUATIONS

    def __post_init__(self) -> None:
        if not self.description.strip():
            raise UsageError("The goal is empty.", cure="Say what is to be reached.")
        if len(self.description) > LONGEST:
            raise UsageError(
                f"The goal has {len(self.description):,} characters, at most {LONGEST:,} are "
                "allowed.",
                cure="Put the details into the task or into a file, and name them in the goal.",
            )
        if _UNSENDABLE.search(self.description):
            raise UsageError(
                "The goal holds signs that are no text (NUL or half a surrogate pair).",
                cure="Leave them away.",
            )
        if not 1 <= self.max_continuations <= MOST_CONTINUATIONS:
            raise UsageError(
                f"A goal has 1 to {MOST_CONTINUATIONS} continuations, not {self.max_continuations}."
            )

    def begun(self, run_id: str) -> GoalState:
        """The state channel `goal` when a run takes it up."""
        return {
            "objective": self.description.strip(),
            "status": "active",
            "continuation_count": 0,
            "max_continuations": self.max_continuations,
            "reason": "",
            "run_id": run_id,
        }


def goal_of(value: str | SessionGoal | None) -> SessionGoal | None:
    """The goal that comes with a request.

    Raises:
        UsageError: empty or too long.
    """
    return SessionGoal(value) if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class Command:
    """`/goal TEXT` (text), `/goal clear` (clear) or `/goal` (neither: show it)."""

    text: str = ""
    clear: bool = False


def command_of(task: str) -> Command | None:
    """The command that a request consists of, None when it is anything else.

    Raises:
        UsageError: the goal is too long.
    """
    words = task.strip()
    found = _COMMAND.match(words)
    if found is None:
        return None
    text = words[found.end() :].lstrip()
    if text.lower() in ("clear", "off", "none"):
        return Command(clear=True)
    return Command(SessionGoal(text).description if text else "")


def carried_out(
    command: Command, before: GoalState | None, run_id: str
) -> tuple[GoalState | None, str]:
    """The goal after a command, and the answer to it."""
    if command.text:
        goal = SessionGoal(command.text)
        text = f"Goal set: {goal.description}\n\nIt is pursued with your next message."
        return goal.begun(run_id), text
    if before is None:
        return None, "This conversation has no goal. Set one with: /goal TEXT"
    if command.clear:
        return None, f"Goal cleared: {before['objective']}"
    return before, closing_line(before)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the judge says: the goal is reached, has to go on, or cannot be reached like this."""

    kind: Kind
    reason: str
    next: str = ""


def read_verdict(text: str) -> Verdict | None:
    """The verdict in a reply, None when there is none: nothing unreadable counts as done."""
    start, end = text.find("{"), text.rfind("}")
    try:
        raw: Any = json.loads(text[start : end + 1]) if 0 <= start < end else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict):
        return None
    fields = cast("dict[str, Any]", raw)
    kind, reason, following = fields.get("verdict"), fields.get("reason"), fields.get("next") or ""
    if kind not in ("done", "continue", "blocked"):
        return None
    if not isinstance(reason, str) or not isinstance(following, str):
        return None
    return Verdict(kind, reason.strip()[:1000], following.strip()[:1000])


def brought_new(
    before: Sequence[AnyMessage],
    after: Sequence[AnyMessage],
    files: tuple[Mapping[str, int], Mapping[str, int]],
) -> bool:
    """Whether a continuation got anywhere.

    It did when a tool gave a result that no tool of the run had given before, when a file in
    outputs is new, gone or of another size, or when the answer differs from every earlier one.

    Args:
        before: messages of the run up to the continuation.
        after: messages of the continuation.
        files: name → size of the files in outputs, before and after it.
    """
    known = {_digest(message) for message in before}
    fresh = [message for message in after if not _failed(message)]
    return files[0] != files[1] or any(_digest(message) not in known for message in fresh)


def _failed(message: AnyMessage) -> bool:
    """Whether a message counts for nothing: not a result or answer, or an error."""
    if message.type == "tool":
        return getattr(message, "status", "") == "error"
    return message.type != "ai" or not str(message.text).strip()


def _digest(message: AnyMessage) -> str:
    said = str(message.text).partition(WARNING)[0]
    words = " ".join(said.split()).casefold()
    text = f"{message.type}\0{message.name if message.type == 'tool' else ''}\0{words}"
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def closing_line(goal: Mapping[str, Any]) -> str:
    """One line about a goal, for the end of a run."""
    words = {
        "active": "Goal still open",
        "done": "Goal reached",
        "blocked": "Goal blocked",
        "stalled": "Goal given up, nothing new came",
        "exhausted": "Goal not reached",
    }
    count, most = goal["continuation_count"], goal["max_continuations"]
    objective = " ".join(str(goal["objective"]).split())
    objective = objective if len(objective) <= 80 else objective[:79] + "…"
    reason = " ".join(str(goal["reason"]).split())
    text = (
        f"{words.get(str(goal['status']), 'Goal')} ({count} of {most} continuations): {objective}"
    )
    return f"{text}. {reason}" if reason else text
