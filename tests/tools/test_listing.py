"""ls, glob and grep as the model reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from deerflow.errors import PathError, ToolError
from deerflow.tools import listing
from deerflow.tools.limits import ToolLimits
from deerflow.tools.registry import builtin_tools
from fakes.filetrees import FILE_TREES
from fakes.toolruns import ToolRun

WORK = "/mnt/user-data/workspace"


@pytest.fixture(params=sorted(FILE_TREES))
async def run(request: pytest.FixtureRequest, tmp_path: Path) -> ToolRun:
    run = ToolRun(await FILE_TREES[request.param](tmp_path))
    await run.files.write("src/深/b.py", b"import os\n")
    await run.files.write("src/a.py", b"x = 1\nimport re\n")
    await run.files.write("notes.md", b"# import\n" + b"y" * 2000)
    await run.files.write(".tool-results/spill.txt", b"import hidden")
    return run


async def test_ls(run: ToolRun) -> None:
    assert await run("ls") == f"{WORK}:\nnotes.md  2,009\nsrc/"
    assert await run("ls", path=None, depth=3) == (
        f"{WORK}:\nnotes.md  2,009\nsrc/\nsrc/a.py  16\nsrc/深/\nsrc/深/b.py  10"
    )
    assert await run("ls", path="/mnt/user-data") == (
        "/mnt/user-data:\noutputs/\nuploads/\nworkspace/"
    )
    assert await run("ls", path="notes.md") == f"{WORK}/notes.md: a file of 2,009 bytes"
    assert await run("ls", path="/mnt/user-data/outputs") == "/mnt/user-data/outputs is empty."
    assert await run("ls", path=".tool-results") == f"{WORK}/.tool-results:\nspill.txt  13"
    with pytest.raises(ToolError, match="does not exist"):
        await run("ls", path="none")
    with pytest.raises(PathError):
        await run("ls", path="/etc")


async def test_ls_from_the_agents_directory(run: ToolRun) -> None:
    run.state["sandbox"] = {"cwd": {"lead": f"{WORK}/src"}}
    assert await run("ls") == f"{WORK}/src:\na.py  16\n深/"
    assert await run("glob", pattern="*.py") == f"{WORK}/src/a.py"
    assert await run("grep", pattern="import", path="深") == f"{WORK}/src/深/b.py\n  1: import os"


async def test_glob(run: ToolRun) -> None:
    assert sorted((await run("glob", pattern="**/*.py")).split("\n")) == [
        f"{WORK}/src/a.py",
        f"{WORK}/src/深/b.py",
    ]
    assert await run("glob", pattern="*.py") == "No file matches '*.py' there. Try **/*.py."
    assert await run("glob", pattern="**/*.zip") == "No file matches '**/*.zip' there."


async def test_grep(run: ToolRun) -> None:
    assert await run("grep", pattern="^import", include="*.py") == (
        f"{WORK}/src/a.py\n  2: import re\n{WORK}/src/深/b.py\n  1: import os"
    )
    assert await run("grep", pattern="nothing here") == "No line matches 'nothing here' there."
    assert len(await run("grep", pattern="y+")) < 600
    with pytest.raises(ToolError, match=r"Escape literal characters"):
        await run("grep", pattern="f(")


async def test_long_lists_say_what_is_left_out(
    run: ToolRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "ENTRIES", 5)
    monkeypatch.setattr(listing, "HITS", 3)
    for number in range(9):
        await run.files.write(f"many/{number}", b"line\n")
    assert (await run("ls", path="many")).endswith(
        "4  5\n[more left out: name a narrower path or pattern]"
    )
    assert (await run("grep", pattern="line", path="many")).count("line") == 3
    short = ToolRun(run.files, tools=builtin_tools(ToolLimits(list_chars=100)))
    text = await short("glob", pattern="many/*")
    assert text.endswith("[6 more left out: name a narrower path or pattern]")
    assert len(text) < 200


async def test_a_name_cannot_pose_as_lines(run: ToolRun) -> None:
    await run.files.write("n/a\nb\x1b[1m", b"x\x07y\tz\n")
    assert await run("ls", path="n") == f"{WORK}/n:\na\\x0ab\\x1b[1m  6"
    assert await run("glob", pattern="n/*") == f"{WORK}/n/a\\x0ab\\x1b[1m"
    assert await run("grep", pattern="x", path="n") == (
        f"{WORK}/n/a\\x0ab\\x1b[1m\n  1: x\\x07y\tz"
    )
