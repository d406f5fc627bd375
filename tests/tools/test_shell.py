"""bash and python: what the model reads about a command, and where it runs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deerflow.errors import ToolError
from deerflow.sandbox.inmemory import InMemoryProvider, InMemorySandbox, Script
from deerflow.sandbox.protocol import CommandResult, ThreadFolders
from deerflow.tools.shell import SCRIPTS, python_command
from fakes.toolruns import ToolRun

WORK = "/mnt/user-data/workspace"
DONE = CommandResult(0, "", 0, None, False, None, WORK, 1.0)


async def run_with(script: Script | None = None) -> ToolRun:
    folders = ThreadFolders(Path("/nowhere"))
    return ToolRun(await InMemoryProvider(script).acquire("k", folders))


class Fixed:
    """A sandbox whose commands all end in the same way, and which notes how they were called."""

    def __init__(self, result: CommandResult) -> None:
        self.result = result
        self.calls: list[dict[str, Any]] = []

    async def run(self, command: str, **options: Any) -> CommandResult:
        self.calls.append({"command": command, **options})
        return self.result

    async def write(self, path: str, data: bytes) -> None:
        self.calls.append({"write": path, "data": data})


async def test_output_and_exit_code() -> None:
    run = await run_with({"make": (2, "no rule\n")})
    assert await run("bash", command="echo 'a 界'") == "a 界"
    assert await run("bash", command="true") == "(no output)"
    assert await run("bash", command="make") == "no rule\n[exit code 2]"
    assert await run("bash", command="false") == "[exit code 1]"
    assert run.last is not None
    assert run.last.status == "success"


async def test_the_directory_is_kept_in_the_state() -> None:
    run = await run_with()
    await run.files.write("d/f", b"")
    await run("bash", command="cd d")
    assert run.state == {"sandbox": {"cwd": {"lead": f"{WORK}/d"}}}
    run.state = {"sandbox": {"cwd": {"lead": "/mnt/user-data/outputs"}}}
    again = await run_with()
    again.state = run.state
    assert await again("bash", command="pwd") == "/mnt/user-data/outputs"
    assert again.state == {"sandbox": {"cwd": {"lead": "/mnt/user-data/outputs"}}}


async def test_how_the_sandbox_is_asked() -> None:
    sandbox = Fixed(DONE)
    run = ToolRun(sandbox)
    run.context.agent = "child"
    run.context.is_alone = False
    run.state = {"sandbox": {"cwd": {"child": f"{WORK}/c"}}}
    await run("bash", command="x", timeout="5")
    await run("bash", command="x", timeout=0)
    asked = {"command": "x", "agent": "child", "alone": False, "cwd": f"{WORK}/c"}
    assert sandbox.calls == [{**asked, "timeout": 5.0}, {**asked, "timeout": None}]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"exit_code": 124, "timed_out": True, "output": "half", "seconds": 600.2},
            "half\n[stopped by the time limit after 600 s; the shell goes on; exit code 124]",
        ),
        (
            {"exit_code": 137, "limit": "memory"},
            "[stopped by the memory limit; do it in smaller parts; exit code 137]",
        ),
        ({"output": "a\0b\n"}, "a\\x00b"),
    ],
)
async def test_limits_are_told(changes: dict[str, Any], text: str) -> None:
    assert await ToolRun(Fixed(replace(DONE, **changes)))("bash", command="x") == text


async def test_a_spilled_output_has_a_handle() -> None:
    spill = f"{SCRIPTS}/bash-1.txt"
    run = ToolRun(Fixed(replace(DONE, output="head…tail", total_bytes=1_213_479, spill=spill)))
    assert await run("bash", command="x") == (
        f"head…tail\n[1,213,479 bytes in all; whole output: {spill}, read it in windows with "
        "read_file]"
    )
    assert run.last is not None
    assert run.last.additional_kwargs == {"deerflow_spill": spill}


async def test_p09_a_windows_path_in_bash_gets_a_hint() -> None:
    run = await run_with({r"cat C:\Users\two.txt": (1, "cat: C:Userstwo.txt: No such file\n")})
    text = await run("bash", command=r"cat C:\Users\two.txt")
    assert text.endswith("bash takes \\ as an escape: write / in paths, or quote them]")
    assert "escape" not in await run("bash", command="false")


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("bash", {"command": " "}),
        ("bash", {"command": "x", "timeout": -1}),
        ("python", {"code": "\n"}),
        ("python", {"code": "'\ud83e'"}),
    ],
)
async def test_refusals(name: str, args: dict[str, Any]) -> None:
    run = await run_with()
    with pytest.raises(ToolError) as caught:
        await run(name, **args)
    assert caught.value.cure
    assert isinstance(run.files, InMemorySandbox)
    assert run.files.commands == []


async def test_python_runs_a_file_in_a_fork_of_the_shell() -> None:
    sandbox = Fixed(replace(DONE, output="4\n", cwd="/elsewhere"))
    run = ToolRun(sandbox)
    assert await run("python", code="print(2 + 2)  # 界") == "4"
    write, command = sandbox.calls
    assert write["write"].startswith(f"{SCRIPTS}/code-")
    assert write["data"] == "print(2 + 2)  # 界".encode()
    assert command["alone"] is False
    assert write["write"] in command["command"]
    assert run.state == {}


def test_the_python_command_in_a_real_shell(tmp_path: Path) -> None:
    """Modules of the current directory import, the exit code survives, the script goes."""
    (tmp_path / "mine.py").write_text("value = 7")
    hidden = tmp_path / "o'ther"
    hidden.mkdir()
    script = hidden / "code.py"
    script.write_text("import mine, sys\nprint(mine.value, '界')\nsys.exit(3)\n", encoding="utf-8")
    (tmp_path / "python").symlink_to(sys.executable)
    done = subprocess.run(
        ["/bin/bash", "-c", python_command(str(script)) + "; echo $?; pwd"],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"},
        capture_output=True,
        check=False,
    )
    assert done.stdout.decode().split() == ["7", "界", "3", str(tmp_path)]
    assert not script.exists()
