"""What waits, in lines: forms and calls."""

from __future__ import annotations

from typing import Any

from deerflow.cli.waiting import approval_lines, question_lines


def waiting(**fields: Any) -> dict[str, Any]:
    return {
        "approval_id": "0123456789abcdef",
        "tool": "delete",
        "args": {"path": "a"},
        "reason": "",
        "agent": "lead",
        "expires_at": None,
        **fields,
    }


def test_a_form_is_readable() -> None:
    fields = [
        {"id": "field_1", "label": "Name", "type": "text", "options": [], "required": True},
        {"id": "field_2", "label": "Size", "type": "choice", "options": ["S", "L"]},
    ]
    assert question_lines({"question": "Which?", "options": ["a"], "fields": fields}) == [
        "  1. a",
        "  Name (text; required):",
        "  Size (choice: S, L):",
    ]
    assert question_lines({"question": "Which?", "options": None, "fields": "odd"}) == []


def test_a_call_shows_all_that_matters_and_steers_no_terminal() -> None:
    call = waiting(
        tool="de\x1blete", args={"path": "x" * 5_000}, reason="it\nis gone", agent="child"
    )
    lines = approval_lines([call])
    assert lines[0] == "Waiting for your approval:"
    assert lines[1].startswith('  01234567  delete {"path":"xxx')
    assert "characters more" in lines[1]
    assert lines[2] == "    it is gone; asked by child"
    assert "\x1b" not in "".join(lines)
    assert "until 20" in "".join(approval_lines([waiting(expires_at=1_800_000_000.0)]))
    late = waiting(expires_at=1_800_000_000.0, default="allow")
    assert approval_lines([late])[2].endswith(", then it is allowed")


def test_a_pause_of_somebody_else_is_told_too() -> None:
    assert len(approval_lines([])) == 1
