"""The in-memory sandbox: scripted commands, a few built-ins, one shell per agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from deerflow.errors import SandboxError
from deerflow.sandbox.inmemory import InMemoryProvider, InMemorySandbox
from deerflow.sandbox.protocol import Sandbox, SandboxProvider, ThreadFolders

FOLDERS = ThreadFolders(Path("/nowhere"))


async def acquired(provider: InMemoryProvider | None = None) -> InMemorySandbox:
    return await (provider or InMemoryProvider()).acquire("k", FOLDERS)


async def test_it_fits_the_protocols() -> None:
    provider = InMemoryProvider()
    assert isinstance(provider, SandboxProvider)
    assert isinstance(await acquired(provider), Sandbox)
    assert (await provider.probe()).level == "memory"


@pytest.mark.parametrize(
    ("command", "code", "output"),
    [
        ("echo 'a  b' 界", 0, "a  b 界\n"),
        ("true", 0, ""),
        ("false", 1, ""),
        ("exit 3", 3, ""),
        ("pwd", 0, "/mnt/user-data/workspace\n"),
        ("cat f none", 1, "data\ncat: none: No such file or directory\n"),
        ("rm -rf /", 127, "bash: rm: command not found\n"),
        ("echo '", 2, "bash: No closing quotation\n"),
    ],
)
async def test_built_ins(command: str, code: int, output: str) -> None:
    sandbox = await acquired()
    await sandbox.write("f", b"data\n")
    result = await sandbox.run(command)
    assert (result.exit_code, result.output) == (code, output)
    assert sandbox.commands == [("lead", command)]


async def test_each_agent_has_its_own_directory_and_only_a_lone_call_changes_it() -> None:
    sandbox = await acquired()
    await sandbox.write("d/f", b"")
    assert (await sandbox.run("cd d", alone=False)).cwd == "/mnt/user-data/workspace"
    assert (await sandbox.run("pwd")).output == "/mnt/user-data/workspace\n"
    assert (await sandbox.run("cd d")).cwd == "/mnt/user-data/workspace/d"
    assert (await sandbox.run("pwd")).output == "/mnt/user-data/workspace/d\n"
    assert (await sandbox.run("pwd", agent="child")).output == "/mnt/user-data/workspace\n"
    assert (await sandbox.run("cd none")).exit_code == 1


async def test_scripted_commands_win() -> None:
    script = {"echo a": (7, "scripted"), "date": lambda command: (0, command.upper())}
    sandbox = await acquired(InMemoryProvider(script))
    assert (await sandbox.run("echo a")).exit_code == 7
    assert (await sandbox.run("date")).output == "DATE"


async def test_files_outlive_a_release_and_shells_do_not() -> None:
    provider = InMemoryProvider()
    sandbox = await acquired(provider)
    await sandbox.write("d/f", b"1")
    await sandbox.run("cd d")
    await provider.release("k")
    await provider.release("unknown")
    for call in (sandbox.run("pwd"), sandbox.read("d/f")):
        with pytest.raises(SandboxError, match="released"):
            await call
    again = await provider.acquire("k", FOLDERS, cwd="/mnt/user-data/outputs")
    assert await again.read("d/f") == b"1"
    assert (await again.run("pwd")).output == "/mnt/user-data/outputs\n"
    assert await provider.acquire("k", FOLDERS) is again
    await provider.close()
    assert provider.active == set()
