"""Live progress of a run on the terminal: finished steps scroll up, the present one stays below."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from deerflow.cli import output
from deerflow.cli.transcript import call_line, decision_line, message_text
from deerflow.events import Event

TODOS = 8
"""Entries of the plan that are shown at once."""
TOOLS = 5
"""Running tools that are shown at once."""
TAIL_LINES = 3
"""Lines of the text under way."""
_KEEP = 2000
"""Characters of that text which are kept."""
_MARKS = {"pending": "☐", "in_progress": "▸", "completed": "☑"}
_STYLES = {"pending": "dim", "in_progress": "bold", "completed": "green"}


class Progress:
    """Draws on stderr.

    Args:
        stopping: whether the run is being stopped.
        console: where to draw; stderr when None.
    """

    def __init__(self, stopping: Callable[[], bool], console: Console | None = None) -> None:
        self._stopping = stopping
        self._console = console or Console(stderr=True, highlight=False, markup=False)
        self._live = Live(
            self,
            console=self._console,
            refresh_per_second=10,
            transient=True,
            redirect_stdout=False,
        )
        self._spinner = Spinner("dots")
        self._started = time.monotonic()
        self._model = ""
        self._turns = 0
        self._finished = 0
        self._tokens = 0
        self._tools: dict[str, tuple[str, float]] = {}
        self._children: dict[str, str] = {}
        self._todos: list[dict[str, Any]] = []
        self._message = ""
        self._tail = ""

    def __enter__(self) -> Self:
        self._live.start()
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
        self._tail = (self._tail + output.plain(text))[-_KEEP:]

    def event(self, event: Event) -> None:
        """Take an event into the picture."""
        handler: Callable[[Event], None] | None = getattr(self, f"_on_{event.type}", None)
        if handler is not None:
            handler(event)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The part that stays: plan, running tools, text under way, status line."""
        now = time.time()
        yield from self._plan()
        running = list(self._tools.values())  # a copy: the loop's thread goes on writing
        for line, since in running[:TOOLS]:
            yield self._row("  →", line, f"{max(0, now - since):.0f} s", "cyan")
        if len(running) > TOOLS:
            yield self._styled(f"    and {len(running) - TOOLS} more", "dim")
        yield from self._under_way(options.max_width)
        self._spinner.update(text=self._styled(self._status(), "bold"))
        yield self._spinner

    # Handlers, one per type of event that is shown.

    def _on_run_started(self, event: Event) -> None:
        self._model = str(event.payload.get("model", ""))

    def _on_model_started(self, event: Event) -> None:
        self._turns = int(event.payload["turn"])

    def _on_model_completed(self, event: Event) -> None:
        usage: dict[str, Any] = event.payload.get("usage") or {}
        self._tokens += int(usage.get("total_tokens", 0))
        self._tail = ""

    def _on_message(self, event: Event) -> None:
        message = event.payload["message"]
        text = output.one_line(message_text(message))
        if message.get("type") == "ai" and message.get("tool_calls") and text:
            self._print(self._styled(f"· {text}", "italic"))
        elif message.get("type") == "tool" and message.get("status") == "error" and text:
            self._print(self._styled(f"  {text}", "dim"))

    def _on_tool_started(self, event: Event) -> None:
        payload = event.payload
        line = call_line(payload["name"], payload["args"])
        self._tools[payload["tool_call_id"]] = (line, event.created_at)

    def _on_task_started(self, event: Event) -> None:
        payload = event.payload
        head = f"{payload['subagent_type']} {output.one_line(payload['description'])}"
        since = self._tools.get(payload["task_id"], ("", event.created_at))[1]
        self._tools[payload["task_id"]] = (head, since)
        self._children[payload["task_id"]] = head

    def _on_task_running(self, event: Event) -> None:
        """What a child does, in its line; items of a batch have none."""
        payload = event.payload
        head, message = self._children.get(payload["task_id"]), payload["message"]
        if head is None or message.get("type") != "ai":
            return
        calls = [call_line(call["name"], call["args"]) for call in message.get("tool_calls", ())]
        doing = ", ".join(calls) or output.one_line(message_text(message))
        self._tools[payload["task_id"]] = (f"{head} · {doing}", self._tools[payload["task_id"]][1])

    def _on_tool_completed(self, event: Event) -> None:
        payload = event.payload
        self._finished += 1
        found = self._tools.pop(payload["tool_call_id"], (payload["name"], event.created_at))
        found = self._children.pop(payload["tool_call_id"], found[0]), found[1]
        good = payload["status"] != "error"
        seconds = f"{event.created_at - found[1]:.1f} s"
        sign, style = ("✓", "green") if good else ("✗", "red")
        self._print(self._row(sign, found[0], seconds, style))

    def _on_todos(self, event: Event) -> None:
        self._todos = list(event.payload["todos"])

    def _on_model_retry(self, event: Event) -> None:
        self._print(self._styled(f"… {event.payload.get('message', 'trying again')}", "yellow"))

    def _on_guard(self, event: Event) -> None:
        self._print(self._styled(f"! {event.payload.get('message', '')}", "yellow"))

    _on_notice = _on_guard

    def _on_approval_requested(self, event: Event) -> None:
        line = call_line(event.payload["tool"], event.payload["args"])
        self._tools.pop(event.payload["tool_call_id"], None)
        self._print(self._styled(f"? {line} waits for your approval", "yellow"))

    def _on_approval_decided(self, event: Event) -> None:
        self._print(self._styled(decision_line(event.payload).strip(), "yellow"))

    def _on_run_ended(self, event: Event) -> None:
        usage: dict[str, Any] = event.payload.get("usage") or {}
        total: dict[str, Any] = usage.get("total", {})
        self._tokens = int(total.get("total", self._tokens))
        self._print(self._styled(f"── {self._summary()}", "dim"))

    # Pieces of the picture.

    def _plan(self) -> list[Text]:
        """The plan around the entry that is worked on."""
        todos = self._todos
        current = next((i for i, todo in enumerate(todos) if todo["status"] != "completed"), 0)
        first = max(0, min(current - TODOS // 2, len(todos) - TODOS))
        rows: list[Text] = []
        for todo in todos[first : first + TODOS]:
            status = str(todo.get("status"))
            text = f"  {_MARKS.get(status, '☐')} {output.one_line(str(todo['content']))}"
            rows.append(self._cut(self._styled(text, _STYLES.get(status, ""))))
        if len(todos) > TODOS:
            rows.append(self._styled(f"    {len(todos)} entries in all", "dim"))
        return rows

    def _under_way(self, width: int) -> list[Text]:
        text = self._tail.strip()
        if not text:
            return []
        lines = self._styled(text, "dim").wrap(self._console, max(10, width - 4))
        return [Text("  ") + line for line in list(lines)[-TAIL_LINES:]]

    def _status(self) -> str:
        if self._stopping():
            return "stopping; all is saved (Ctrl-C again ends at once)"
        parts = [f"turn {self._turns}" if self._turns else "starting"]
        if self._tokens:
            parts.append(f"{self._tokens:,} tokens")
        parts.append(f"{time.monotonic() - self._started:.0f} s")
        if self._model:
            parts.append(self._model)
        return " · ".join(parts)

    def _summary(self) -> str:
        turns = f"{self._turns} turn{'s' if self._turns != 1 else ''}"
        tools = f"{self._finished} tool call{'s' if self._finished != 1 else ''}"
        seconds = f"{time.monotonic() - self._started:.1f} s"
        return f"{turns} · {tools} · {self._tokens:,} tokens · {seconds}"

    def _row(self, sign: str, line: str, seconds: str, style: str) -> Text:
        """Sign, call and duration in one line; a long call is cut, the duration stays."""
        name, _, rest = line.partition(" ")
        text = self._styled(f"{sign} ", style) + self._styled(name, "bold")
        if rest:
            text += Text(f" {rest}")
        self._cut(text, len(seconds) + 2)
        return text + self._styled(f"  {seconds}", "dim")

    def _cut(self, text: Text, spare: int = 0) -> Text:
        text.truncate(max(10, self._console.width - spare), overflow="ellipsis")
        text.no_wrap = True
        return text

    def _styled(self, text: str, style: str) -> Text:
        """NO_COLOR (https://no-color.org) takes every style away, not the colours alone."""
        return Text(text, style="" if self._console.no_color else style)

    def _print(self, line: Text) -> None:
        self._console.print(self._cut(line))
