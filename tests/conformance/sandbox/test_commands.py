"""What commands in every sandbox do alike: shells per agent, forks, directories, one file tree."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from deerflow.errors import SandboxError, SandboxUnavailableError
from deerflow.sandbox.protocol import Sandbox, SandboxProvider
from fakes.filetrees import PROVIDERS, folders_below

WORK = "/mnt/user-data/workspace"


@pytest.fixture(params=sorted(PROVIDERS))
async def provider(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncGenerator[SandboxProvider, None]:
    async with PROVIDERS[request.param](tmp_path) as made:
        try:
            await made.acquire("probe", folders_below(tmp_path / "probe"))
        except SandboxUnavailableError as error:
            pytest.skip(str(error))
        await made.release("probe")
        assert (await made.probe()).level == request.param
        yield made


@pytest.fixture
async def sandbox(provider: SandboxProvider, tmp_path: Path) -> Sandbox:
    return await provider.acquire("k", folders_below(tmp_path))


async def test_protocols(provider: SandboxProvider, sandbox: Sandbox) -> None:
    assert isinstance(provider, SandboxProvider)
    assert isinstance(sandbox, Sandbox)
    assert sandbox.level == (await provider.probe()).level


async def test_output_and_exit_code(sandbox: Sandbox) -> None:
    done = await sandbox.run("echo '范围 — 🦌  x'")
    assert (done.exit_code, done.output, done.cwd) == (0, "范围 — 🦌  x\n", WORK)
    assert (done.total_bytes, done.spill, done.timed_out, done.limit) == (
        len(done.output.encode()),
        None,
        False,
        None,
    )
    assert done.seconds >= 0
    assert ((await sandbox.run("false")).exit_code, (await sandbox.run("true")).exit_code) == (1, 0)
    missing = await sandbox.run("no-such-program")
    assert missing.exit_code == 127
    assert "not found" in missing.output


async def test_a_dismissed_agent_starts_afresh_and_leaves_the_others(sandbox: Sandbox) -> None:
    await sandbox.dismiss("nobody")
    for agent in ("one", "two"):
        await sandbox.run("cd /mnt/user-data/outputs", agent=agent)
    await sandbox.write("kept.txt", b"kept")
    await sandbox.dismiss("one")
    await sandbox.dismiss("one")
    assert (await sandbox.run("pwd", agent="one")).output == f"{WORK}\n"
    assert (await sandbox.run("pwd", agent="two")).output == "/mnt/user-data/outputs\n"
    assert await sandbox.read("kept.txt") == b"kept"


async def test_commands_and_file_methods_share_the_files(sandbox: Sandbox) -> None:
    await sandbox.write("深/a b.txt", "界\n".encode())
    assert (await sandbox.run("cat '深/a b.txt'")).output == "界\n"
    missing = await sandbox.run("cat none")
    assert missing.exit_code == 1
    assert "No such file" in missing.output


async def test_the_directory_lasts_from_command_to_command(sandbox: Sandbox) -> None:
    await sandbox.write("d/f", b"here")
    assert (await sandbox.run("cd d")).cwd == f"{WORK}/d"
    assert (await sandbox.run("pwd")).output == f"{WORK}/d\n"
    assert (await sandbox.run("cat f")).output == "here"
    assert (await sandbox.run("cd /mnt/user-data/outputs")).cwd == "/mnt/user-data/outputs"
    assert (await sandbox.run("cd none")).exit_code == 1
    assert (await sandbox.run("pwd")).output == "/mnt/user-data/outputs\n"


async def test_parallel_calls_change_nothing(sandbox: Sandbox) -> None:
    await sandbox.write("d/f", b"")
    await sandbox.run("cd d")
    together = await asyncio.gather(
        sandbox.run("cd /mnt/user-data/outputs", alone=False),
        sandbox.run("pwd", alone=False),
    )
    assert together[1].output == f"{WORK}/d\n"
    assert (await sandbox.run("pwd")).output == f"{WORK}/d\n"


async def test_each_agent_has_a_shell_of_its_own(sandbox: Sandbox) -> None:
    await sandbox.write("d/f", b"same files")
    await sandbox.run("cd d")
    assert (await sandbox.run("pwd", agent="child")).output == f"{WORK}\n"
    assert (await sandbox.run("cat d/f", agent="child")).output == "same files"
    elsewhere = await sandbox.run("pwd", agent="third", cwd="/mnt/user-data/uploads")
    assert elsewhere.output == "/mnt/user-data/uploads\n"


async def test_a_key_has_one_sandbox_and_its_files_outlive_it(
    provider: SandboxProvider, sandbox: Sandbox, tmp_path: Path
) -> None:
    folders = folders_below(tmp_path)
    assert await provider.acquire("k", folders) is sandbox
    await sandbox.write("f", b"kept")
    await sandbox.run("cd /mnt/user-data/uploads")
    await provider.release("k")
    await provider.release("k")
    await provider.release("never seen")
    with pytest.raises(SandboxError):
        await sandbox.run("pwd")
    again = await provider.acquire("k", folders, cwd="/mnt/user-data/outputs")
    assert (await again.run("pwd")).output == "/mnt/user-data/outputs\n"
    assert (await again.run("pwd", agent="child")).output == f"{WORK}\n"
    assert (await again.run(f"cat {WORK}/f")).output == "kept"


async def test_threads_do_not_meet(
    provider: SandboxProvider, sandbox: Sandbox, tmp_path: Path
) -> None:
    other = await provider.acquire("other", folders_below(tmp_path / "other"))
    await other.write("mine", b"x")
    assert await sandbox.stat("mine") is None
    assert (await sandbox.run("cat mine")).exit_code == 1
