"""Live progress of a run on the terminal: steps, tools, todos, tokens and the text as it comes."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from deerflow.events import Event

_MARKS = {"pending": "☐", "in_progress": "▶", "completed": "☑"}
_TAIL = 400
"""Characters of the text under way that are shown."""


class Progress:
    """Draws on stderr; finished steps scroll up, the present one stays below them."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._live = Live(console=self._console, refresh_per_second=8, transient=True)
        self._started = time.monotonic()
        self._turn = 0
        self._tokens = 0
        self._tools: dict[str, str] = {}
        self._todos: list[dict[str, Any]] = []
        self._message = ""
        self._tail = ""

    def __enter__(self) -> Self:
        self._live.start()
        self._draw()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def text(self, message_id: str, text: str) -> None:
        """A piece of a message under way."""
        if message_id != self._message:
            self._message, self._tail = message_id, ""
        self._tail = (self._tail + text)[-_TAIL:]
        self._draw()

    def event(self, event: Event) -> None:
        """Take an event into the picture."""
        handler = getattr(self, f"_on_{event.type}", None)
        if handler is not None:
            handler(event.payload)
        self._draw()

    def _on_model_started(self, payload: dict[str, Any]) -> None:
        self._turn = int(payload["turn"])
        self._tail = ""

    def _on_model_completed(self, payload: dict[str, Any]) -> None:
        self._tokens += int((payload.get("usage") or {}).get("total_tokens", 0))
        self._tail = ""

    def _on_tool_started(self, payload: dict[str, Any]) -> None:
        self._tools[payload["tool_call_id"]] = call_line(payload["name"], payload["args"])

    def _on_tool_completed(self, payload: dict[str, Any]) -> None:
        line = self._tools.pop(payload["tool_call_id"], payload["name"])
        good = payload["status"] != "error"
        self._print(Text(f"{'✓' if good else '✗'} {line}", style="green" if good else "red"))

    def _on_todos(self, payload: dict[str, Any]) -> None:
        self._todos = list(payload["todos"])

    def _on_model_retry(self, payload: dict[str, Any]) -> None:
        self._print(Text(f"… {payload.get('message', 'retry')}", style="yellow"))

    def _on_guard(self, payload: dict[str, Any]) -> None:
        self._print(Text(f"! {payload.get('message', '')}", style="yellow"))

    _on_notice = _on_guard

    def _print(self, line: Text) -> None:
        line.truncate(self._console.width, overflow="ellipsis")
        self._console.print(line)

    def _draw(self) -> None:
        rows: list[RenderableType] = [
            Text(f"{_MARKS.get(todo['status'], '☐')} {todo['content']}", style="cyan")
            for todo in self._todos
        ]
        rows += [Text(f"→ {line}", style="dim") for line in self._tools.values()]
        if self._tail:
            rows.append(Text(self._tail, style="dim italic"))
        seconds = int(time.monotonic() - self._started)
        status = f"turn {self._turn} · {self._tokens:,} tokens · {seconds} s"
        rows.append(Spinner("dots", Text(status, style="bold")))
        self._live.update(Group(*rows))


def call_line(name: str, args: dict[str, Any]) -> str:
    """A call in one line: the name and its most telling argument."""
    for key in ("path", "command", "pattern", "expression", "question", "description", "code"):
        if args.get(key):
            return f"{name} {' '.join(str(args[key]).split())}"
    return name
