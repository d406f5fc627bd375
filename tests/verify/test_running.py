"""Programs of ours in a child process and in a sandbox."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import sympy

from deerflow.errors import SandboxError
from deerflow.sandbox.inmemory import InMemoryProvider
from deerflow.sandbox.protocol import WORKSPACE, ThreadFolders
from deerflow.verify.running import ChildPython, Limits, SandboxPython

assert sympy.__version__  # loading it here leaves it compiled for the children


@pytest.mark.parametrize("bwrap", [None, shutil.which("bwrap")], ids=["plain", "bwrap"])
async def test_data_comes_by_standard_input_and_nothing_else_is_there(bwrap: str | None) -> None:
    code = (
        "import os, sys\nprint(sys.stdin.read())\n"
        "print(sorted(set(os.environ) - {'LC_CTYPE', 'PWD'}))\nprint(os.listdir('.'))"
    )
    ran = await ChildPython(bwrap=bwrap).run(code, b"hello")
    assert (ran.exit_code, ran.output, ran.limit) == (0, "hello\n[]\n['check.py']\n", "")


@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.socket()",
        "import os; os.system('true')",
        "import subprocess; subprocess.run(['true'])",
        "import os; os.fork()",
    ],
)
async def test_what_no_check_needs_is_refused(code: str) -> None:
    ran = await ChildPython().run(code, b"")
    assert ran.exit_code == 1
    assert "PermissionError" in ran.output


async def test_nothing_can_be_written() -> None:
    ran = await ChildPython(bwrap=None).run("with open('file', 'w') as file: file.write('a')", b"")
    assert ran.exit_code != 0


@pytest.mark.parametrize(
    ("code", "limits", "limit"),
    [
        ("while True: pass", Limits(cpu_seconds=4), "time"),
        ("import time; time.sleep(60)", Limits(wall_seconds=0.2), "time"),
        ("x = bytearray(10**9)", Limits(), "memory"),
        ("print('a' * 10**6)", Limits(), "output"),
    ],
)
async def test_limits_end_it_and_are_named(code: str, limits: Limits, limit: str) -> None:
    ran = await ChildPython(limits=limits).run(code, b"x" * 10**6)
    assert ran.limit == limit
    assert len(ran.output) <= limits.output_bytes


async def test_no_interpreter_is_a_sandbox_error() -> None:
    with pytest.raises(SandboxError):
        await ChildPython("/nowhere/python", bwrap=None).run("", b"")


async def test_a_sandbox_gets_program_and_data_as_files(tmp_path: Path) -> None:
    provider = InMemoryProvider()
    folders = ThreadFolders(tmp_path / "user-data")
    ran = await SandboxPython.of(provider, "t", folders).run("print(1)", b"{}")
    sandbox = await provider.acquire("t", folders)
    [(agent, command)] = sandbox.commands  # type: ignore[attr-defined]
    assert agent == "verify"
    assert "ulimit -t 10 -v 524288" in command
    assert command.count(f"{WORKSPACE}/.tool-results/check-") == 4
    assert ran.exit_code == 127
