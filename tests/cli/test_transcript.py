"""A thread's events as a conversation to read."""

from __future__ import annotations

from typing import Any

import pytest

from deerflow.cli.transcript import RESULT, Transcript, call_line, message_text
from deerflow.events import Event

OUTPUTS = "/mnt/user-data/outputs/"


def lines(*events: tuple[str, dict[str, Any]]) -> list[str]:
    transcript = Transcript()
    return [
        line
        for seq, (type, payload) in enumerate(events, 1)
        for line in transcript.lines(Event(seq, type, "r", "t", 0.0, payload))
    ]


@pytest.mark.parametrize(
    ("name", "args", "line"),
    [
        ("bash", {"command": "ls \n -la"}, "bash ls -la"),
        ("read_file", {"path": "/mnt/user-data/uploads/a.csv"}, "read_file uploads/a.csv"),
        ("present_files", {"paths": [f"{OUTPUTS}a", "b"]}, "present_files outputs/a, b"),
        ("write_todos", {"todos": [{"status": "completed"}, {}, 3]}, "write_todos 1 of 3 done"),
        ("write_todos", {}, "write_todos 0 of 0 done"),
        ("other", {"n": 3}, "other"),
        ("bash", {"command": "\x1b[2Jls"}, "bash [2Jls"),
    ],
)
def test_a_call_in_one_line(name: str, args: dict[str, Any], line: str) -> None:
    assert call_line(name, args) == line


def test_parts_of_a_message() -> None:
    parts = [{"type": "text", "text": "See:"}, {"type": "image_url"}, "end"]
    assert message_text({"content": parts}) == "See:\n[image_url]\nend"
    assert message_text({"content": None}) == ""


def test_a_delegation_says_how_it_ended() -> None:
    def said(content: str, **extra: str) -> list[str]:
        call = {"id": "a", "name": "task", "args": {"description": "Look up tea", "prompt": "…"}}
        asked = {"type": "ai", "content": "", "tool_calls": [call]}
        got = {"type": "tool", "name": "task", "tool_call_id": "a", "content": content}
        failed = {"status": "error"} if extra.get("subagent_status") == "timed_out" else {}
        return lines(
            ("message", {"message": asked}),
            ("message", {"message": got | failed | {"additional_kwargs": extra}}),
        )

    assert said("Tea.", subagent_status="completed") == ["  ✓ task Look up tea  → Tea."]
    assert said("Too slow.", subagent_status="timed_out") == [
        "  ✗ task Look up tea (timed out)  → Too slow."
    ]


def test_a_long_result_is_cut_and_an_error_is_marked() -> None:
    call = {"id": "c", "name": "bash", "args": {"command": "ls"}}
    asked = {"type": "ai", "content": "", "tool_calls": [call]}
    result = {"type": "tool", "content": "x" * 500, "tool_call_id": "c", "status": "error"}
    printed = lines(("message", {"message": asked}), ("message", {"message": result}))
    assert printed == [f"  ✗ bash ls  → {'x' * RESULT}…"]


@pytest.mark.parametrize(
    ("payload", "printed"),
    [
        ({"status": "success", "outcome": {"kind": "answered"}}, [""]),
        (
            {"status": "success", "outcome": {"kind": "deliverable_missing", "missing": ["a.md"]}},
            ["  — deliverable missing: a.md", ""],
        ),
        (
            {"status": "error", "outcome": None, "error": {"message": "No key."}},
            ["  — error: No key.", ""],
        ),
        ({"status": "cancelled", "outcome": None, "error": None}, ["  — cancelled", ""]),
    ],
)
def test_the_end_of_a_run(payload: dict[str, Any], printed: list[str]) -> None:
    assert lines(("run_ended", payload)) == printed


def test_a_decision_has_a_line() -> None:
    decided = {"tool": "bash", "status": "approved", "by": "local", "note": ""}
    assert lines(("approval_decided", decided)) == ["  ? bash approved by local"]
