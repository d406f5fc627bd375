"""A thread's events as a conversation to read: who said what, tools in a line, files, the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from deerflow.cli import output
from deerflow.events import Event

RESULT = 100
"""Characters of a tool's result that are shown."""
_SHORT = "/mnt/user-data/"
_TELLING = (
    "path",
    "paths",
    "image_path",
    "command",
    "pattern",
    "expression",
    "question",
    "code",
    "url",
    "query",
    "description",
)
"""Arguments that say most of a call, best first."""


def call_line(name: str, args: dict[str, Any]) -> str:
    """A call in one line: the name and its most telling argument."""
    if name == "write_todos":
        return f"{name} {done_of(args.get('todos') or ())}"
    value: Any = next((args[key] for key in _TELLING if args.get(key)), "")
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)  # pyright: ignore[reportUnknownArgumentType]
    return f"{name} {output.one_line(text.replace(_SHORT, ''))}".rstrip()


def done_of(todos: Sequence[Any]) -> str:
    """How far a plan is: "1 of 3 done"."""
    done = sum(isinstance(todo, dict) and "completed" in todo.values() for todo in todos)  # pyright: ignore[reportUnknownMemberType]
    return f"{done} of {len(todos)} done"


def message_text(message: dict[str, Any]) -> str:
    """The visible text of a logged message; other parts by their kind in brackets."""
    content: Any = message.get("content")
    if isinstance(content, str):
        return content.strip()
    parts = [
        part if isinstance(part, str) else part.get("text") or f"[{part.get('type', 'part')}]"
        for part in content or ()
    ]
    return "\n".join(parts).strip()


class Transcript:
    """Turns events into lines, one thread from its start."""

    def __init__(self) -> None:
        self._calls: dict[str, str] = {}

    def lines(self, event: Event) -> Iterator[str]:
        """What to print for an event, often nothing."""
        if event.type == "message":
            yield from self._message(event.payload["message"])
        elif event.type == "artifacts":
            yield from (f"  ⇒ {path}" for path in event.payload["artifacts"])
        elif event.type == "approval_decided":
            yield decision_line(event.payload)
        elif event.type == "run_ended":
            yield from _end(event.payload)

    def _message(self, message: dict[str, Any]) -> Iterator[str]:
        text = message_text(message)
        kind = message.get("type")
        if kind == "tool":
            yield self._result(message, text)
            return
        if kind == "human":
            yield f"You: {text}"
        elif text:
            yield f"DeerFlow: {text}"
        for call in message.get("tool_calls", ()):
            self._calls[call["id"]] = call_line(call["name"], call["args"])

    def _result(self, message: dict[str, Any], text: str) -> str:
        name = str(message.get("name", "tool"))
        call = self._calls.pop(str(message.get("tool_call_id")), name)
        sign = "✗" if message.get("status") == "error" else "✓"
        short = output.one_line(text)
        short = short if len(short) <= RESULT else f"{short[:RESULT]}…"
        call = call if len(call) <= RESULT else f"{call[:RESULT]}…"
        ended = message.get("additional_kwargs", {}).get("subagent_status", "completed")
        if ended != "completed":
            call += f" ({ended.replace('_', ' ')})"
        return f"  {sign} {call}  → {short}" if short else f"  {sign} {call}"


def decision_line(payload: dict[str, Any]) -> str:
    """What a human, or the time, decided over a call."""
    note = output.one_line(str(payload["note"]))
    said = f"{payload['tool']} {payload['status']} by {payload['by']}{': ' if note else ''}{note}"
    return f"  ? {output.one_line(said)}"


def _end(payload: dict[str, Any]) -> Iterator[str]:
    """A line for an end that is no answer, then a blank one between runs."""
    outcome: dict[str, Any] = payload.get("outcome") or {}
    error: dict[str, Any] = payload.get("error") or {}
    kind = outcome.get("kind") or payload.get("status")
    if kind != "answered":
        reason = error.get("message") or ", ".join(map(str, outcome.get("missing", ())))
        yield f"  — {str(kind).replace('_', ' ')}{': ' if reason else ''}{reason}"
    yield ""
