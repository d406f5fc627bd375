"""The picture of a run, drawn on a terminal in memory."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from deerflow.cli.progress import TODOS, TOOLS, Progress
from deerflow.events import Event

WIDTH = 60


class Drawn:
    """A progress on a console that writes into memory."""

    def __init__(self, *, stopping: bool = False) -> None:
        self.out = io.StringIO()
        console = Console(file=self.out, width=WIDTH, color_system=None)
        self.progress = Progress(lambda: stopping, console)
        self._seq = 0

    def see(self, type: str, at: float = 0.0, **payload: Any) -> None:
        self._seq += 1
        self.progress.event(Event(self._seq, type, "r", "t", at, payload))

    @property
    def scrolled(self) -> list[str]:
        """Lines that are above the live part."""
        return self.out.getvalue().splitlines()

    def live(self) -> list[str]:
        """The live part."""
        console = Console(width=WIDTH, color_system=None)
        with console.capture() as capture:
            console.print(self.progress)
        return capture.get().splitlines()


def test_a_tool_runs_and_scrolls_up_with_its_duration() -> None:
    drawn = Drawn()
    drawn.see("tool_started", 10.0, tool_call_id="a", name="bash", args={"command": "ls\n-la"})
    assert any(line.startswith("  → bash ls -la") for line in drawn.live())
    drawn.see("tool_completed", 12.5, tool_call_id="a", name="bash", status="success")
    assert drawn.scrolled == ["✓ bash ls -la  2.5 s"]
    assert not any("bash" in line for line in drawn.live())


def test_a_failed_tool_says_why() -> None:
    drawn = Drawn()
    args = {"path": "/mnt/user-data/outputs/a.md"}
    drawn.see("tool_started", tool_call_id="a", name="read_file", args=args)
    drawn.see("tool_completed", tool_call_id="a", name="read_file", status="error")
    drawn.see("message", message={"type": "tool", "status": "error", "content": "Error:\nnone"})
    assert drawn.scrolled == ["✗ read_file outputs/a.md  0.0 s", "  Error: none"]


def test_a_child_has_one_line_that_says_what_it_does() -> None:
    drawn = Drawn()
    args = {"description": "Look up tea", "prompt": "…", "subagent_type": "bash"}
    drawn.see("tool_started", 10.0, tool_call_id="a", name="task", args=args)
    drawn.see("task_started", 12.0, task_id="a", subagent_type="bash", description="Look up tea")
    called = {"type": "ai", "tool_calls": [{"name": "bash", "args": {"command": "ls"}}]}
    drawn.see("task_running", task_id="a", message=called)
    drawn.see("task_running", task_id="a", message={"type": "tool", "content": "files"})
    drawn.see("task_running", task_id="item 7 of a batch", message=called)
    (line,) = [line for line in drawn.live() if "tea" in line]
    assert line.startswith("  → bash Look up tea · bash ls")
    drawn.see("task_running", task_id="a", message={"type": "ai", "content": "Found\nit."})
    assert any("Look up tea · Found it." in line for line in drawn.live())
    drawn.see("task_completed", task_id="a")
    drawn.see("tool_completed", 15.0, tool_call_id="a", name="task", status="success")
    assert drawn.scrolled == ["✓ bash Look up tea  5.0 s"]
    assert not any("tea" in line for line in drawn.live())


def test_a_long_call_is_cut_and_keeps_its_duration() -> None:
    drawn = Drawn()
    args = {"command": "echo " + "鹿" * 100}
    drawn.see("tool_started", tool_call_id="a", name="bash", args=args)
    drawn.see("tool_completed", tool_call_id="a", name="bash", status="success")
    (line,) = drawn.scrolled
    assert line.endswith("…  0.0 s") or line.endswith("… 0.0 s") or line.endswith("…   0.0 s")


def test_the_live_part_stays_small() -> None:
    drawn = Drawn()
    todos = [{"content": f"step {n}", "status": "completed"} for n in range(20)]
    todos[10]["status"] = "in_progress"
    drawn.see("todos", todos=todos)
    for n in range(9):
        drawn.see("tool_started", tool_call_id=str(n), name="bash", args={"command": f"job {n}"})
    drawn.progress.text("m", "word " * 500)
    lines = drawn.live()
    assert "  ▸ step 10" in lines
    assert "    and 4 more" in lines
    assert len(lines) <= TODOS + 1 + TOOLS + 1 + 3 + 1
    assert all(len(line) <= WIDTH for line in lines)


def test_the_status_line() -> None:
    drawn = Drawn()
    assert "starting · 0 s" in drawn.live()[-1]
    drawn.see("run_started", model="big")
    drawn.see("model_started", turn=2)
    drawn.see("model_completed", turn=2, usage={"total_tokens": 12_340})
    drawn.see("model_completed", turn=2, usage=None)
    assert "turn 2 · 12,340 tokens · 0 s · big" in drawn.live()[-1]
    assert "stopping" in Drawn(stopping=True).live()[-1]


def test_text_of_a_finished_message_goes_and_control_characters_never_come() -> None:
    drawn = Drawn()
    drawn.progress.text("m", "one \x1b[2J\x07two")
    assert any("one [2Jtwo" in line for line in drawn.live())
    drawn.see("model_completed", turn=1, usage=None)
    assert not any("two" in line for line in drawn.live())


def test_retries_and_notices_are_told() -> None:
    drawn = Drawn()
    drawn.see("model_retry", message="Too many requests; again in 3 s.")
    drawn.see("notice", message="No network in the sandbox.")
    drawn.see("run_ended", usage={"total": {"total": 7}})
    assert drawn.scrolled[:2] == [
        "… Too many requests; again in 3 s.",
        "! No network in the sandbox.",
    ]
    assert drawn.scrolled[2].startswith("── 0 turns · 0 tool calls · 7 tokens · ")


def test_a_call_that_waits_is_told_and_runs_no_more() -> None:
    drawn = Drawn()
    args = {"command": "rm a"}
    drawn.see("tool_started", tool_call_id="a", name="bash", args=args)
    drawn.see("approval_requested", tool_call_id="a", tool="bash", args=args)
    assert not any("bash" in line for line in drawn.live())
    drawn.see("approval_decided", tool="bash", status="rejected", by="local", note="keep\nit")
    assert drawn.scrolled == [
        "? bash rm a waits for your approval",
        "? bash rejected by local: keep it",
    ]
