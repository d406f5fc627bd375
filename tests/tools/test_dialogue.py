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
