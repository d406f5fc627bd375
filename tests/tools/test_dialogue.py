"""present_files, ask_clarification and write_todos."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from deerflow.errors import ToolError
from fakes.filetrees import FILE_TREES
from fakes.toolruns import ToolRun

OUT = "/mnt/user-data/outputs"


@pytest.fixture(params=sorted(FILE_TREES))
async def run(request: pytest.FixtureRequest, tmp_path: Path) -> ToolRun:
    return ToolRun(await FILE_TREES[request.param](tmp_path))


async def test_present_files(run: ToolRun) -> None:
    await run.files.write(f"{OUT}/报告.md", b"x")
    await run.files.write(f"{OUT}/b/c.csv", b"x")
    text = await run(
        "present_files", paths=[f"{OUT}/报告.md", f"{OUT}/b/../b/c.csv", f"{OUT}/报告.md"]
    )
    assert text == f"Presented: {OUT}/报告.md, {OUT}/b/c.csv"
    assert run.state == {"artifacts": [f"{OUT}/报告.md", f"{OUT}/b/c.csv"]}


@pytest.mark.parametrize("paths", [f"{OUT}/a", f'["{OUT}/a"]'])
async def test_present_files_reads_what_weak_models_write(run: ToolRun, paths: str) -> None:
    await run.files.write(f"{OUT}/a", b"x")
    await run("present_files", paths=paths)
    assert run.state == {"artifacts": [f"{OUT}/a"]}


async def test_nothing_is_presented_unless_all_is_right(run: ToolRun) -> None:
    await run.files.write(f"{OUT}/good", b"x")
    await run.files.write(f"{OUT}/empty", b"")
    await run.files.write("draft.md", b"x")
    paths = [f"{OUT}/good", f"{OUT}/empty", "draft.md", f"{OUT}/none", OUT, "/etc/passwd"]
    with pytest.raises(ToolError, match=r"^Nothing was presented\. ") as caught:
        await run("present_files", paths=paths)
    for part in ("empty is empty", "is not in", "none does not exist", "is a directory", "passwd"):
        assert part in str(caught.value)
    assert f"{OUT}/good" not in str(caught.value)
    assert run.state == {}
    with pytest.raises(ToolError, match="No path was given"):
        await run("present_files", paths=None)


async def test_ask_clarification(run: ToolRun) -> None:
    text = await run(
        "ask_clarification", question="Which year?", options='["2025", "2026"]', context="Two fit."
    )
    assert text == "Two fit.\nWhich year?\n1. 2025\n2. 2026"
    assert await run("ask_clarification", question="Why?", options=None) == "Why?"
    with pytest.raises(ToolError):
        await run("ask_clarification", question=" ")


def card(run: ToolRun) -> dict[str, Any]:
    assert run.last is not None
    return run.last.artifact["human_input"]


async def test_a_question_carries_its_card(run: ToolRun) -> None:
    await run("ask_clarification", question=" Which year? ", options=["2025", "2026"])
    asked = card(run)
    assert (asked["version"], asked["kind"]) == (1, "human_input_request")
    assert asked["request_id"] == f"clarification:{asked['tool_call_id']}"
    assert (asked["question"], asked["input_mode"]) == ("Which year?", "choice_with_other")
    assert asked["options"][1] == {"id": "option_2", "label": "2026", "value": "2026"}
    await run("ask_clarification", question="Why?")
    assert card(run)["input_mode"] == "free_text"


async def test_a_form_has_fields(run: ToolRun) -> None:
    fields = [
        {"label": " Name ", "required": True},
        {"label": "Copies", "type": "integer"},
        {"label": "Size", "type": "select", "options": ["S", "L"]},
        {"label": "Paper", "options": ["A4"], "type": None},
        "Remarks",
    ]
    text = await run("ask_clarification", question="What exactly?", fields=fields)
    assert text == (
        "What exactly?\n- Name (text; required)\n- Copies (number)\n- Size (S, L)\n- Paper (A4)\n"
        "- Remarks (text)"
    )
    asked = card(run)
    assert (asked["version"], asked["input_mode"]) == (2, "form")
    assert asked["fields"][0] == {
        "id": "field_1", "label": "Name", "type": "text", "options": [], "required": True
    }  # fmt: skip
    assert [field["type"] for field in asked["fields"]] == [
        "text", "number", "choice", "choice", "text"
    ]  # fmt: skip
    assert await run("ask_clarification", question="Why?", fields=None) == "Why?"
    assert "Where" in await run("ask_clarification", question="Q", fields='[{"label": "Where"}]')


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([{"label": " "}], "no label"),
        ([{"label": "Size", "type": "choice"}], "no options"),
        ([{"label": str(n)} for n in range(21)], "at most 20"),
    ],
)
async def test_a_form_that_nobody_could_fill_in_is_refused(
    run: ToolRun, fields: Any, said: str
) -> None:
    with pytest.raises(ToolError, match=said):
        await run("ask_clarification", question="What?", fields=fields)


async def test_write_todos(run: ToolRun) -> None:
    todos = [
        {"content": " read ", "status": "completed"},
        {"content": "write", "status": "in_progress"},
    ]
    assert await run("write_todos", todos=todos) == "Plan saved: 1 of 2 done."
    saved: list[dict[str, Any]] = run.state["todos"]
    assert saved == [
        {"content": "read", "status": "completed"},
        {"content": "write", "status": "in_progress"},
    ]
    assert await run("write_todos", todos=[]) == "Plan saved: 0 of 0 done."
    with pytest.raises(ValidationError):
        await run("write_todos", todos=[{"content": "x", "status": "later"}])
    for bad in ([{"content": " ", "status": "pending"}], [*todos] * 51):
        with pytest.raises(ToolError):
            await run("write_todos", todos=bad)
    assert run.state["todos"] == []
