"""The provider: one sandbox per key, leases, restarts, and nothing left in whatever way it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from deerflow.errors import ConfigError, SandboxError, SandboxUnavailableError
from deerflow.sandbox import landlock
from deerflow.sandbox.host import HostProvider
from deerflow.sandbox.local import LocalProvider
from deerflow.sandbox.nursery import Cradle
from deerflow.sandbox.protocol import Level, Sandbox, SandboxProvider
from deerflow.sandbox.tree import descendants, snapshot
from fakes.escapes import ATTEMPTS, BLOCKED
from fakes.sandboxes import (
    EVERY,
    ISOLATED,
    bench_or_skip,
    config,
    folders_of,
    make_provider,
    processes_of,
    until,
)

every_level = pytest.mark.parametrize("level", EVERY)
isolated = pytest.mark.parametrize("level", ISOLATED)


@every_level
async def test_provider_and_sandbox_fulfil_the_seam(level: Level, tmp_path: Path) -> None:
    async with bench_or_skip(level, tmp_path) as place:
        assert isinstance(place.provider, SandboxProvider)
        assert isinstance(place.sandbox, Sandbox)
        assert place.sandbox.level == level == (await place.provider.probe()).level


@every_level
async def test_same_key_same_sandbox(level: Level, tmp_path: Path) -> None:
    async with bench_or_skip(level, tmp_path) as place:
        again, other = await asyncio.gather(
            place.provider.acquire("one", place.folders),
            place.provider.acquire("two", folders_of(place.home, "two")),
        )
        assert again is place.sandbox and other is not place.sandbox
        await place.text("echo secret > mine")
        assert (await other.run("ls; cat /mnt/user-data/workspace/mine")).exit_code == 1
        await place.provider.release("one")
        await place.provider.release("one")
        await place.provider.release("never")
        fresh = await place.provider.acquire("one", place.folders, cwd="/mnt/user-data/outputs")
        assert (await fresh.run("pwd; cat ../workspace/mine")).output == (
            "/mnt/user-data/outputs\nsecret\n"
        )


@every_level
async def test_files_and_commands_meet(level: Level, tmp_path: Path) -> None:
    async with bench_or_skip(level, tmp_path) as place:
        await place.sandbox.write("/mnt/user-data/outputs/a.txt", "é\n".encode())
        assert await place.text("cat ../outputs/a.txt; echo more >> ../outputs/a.txt") == "é\n"
        assert await place.sandbox.read("../outputs/a.txt") == "é\nmore\n".encode()
        assert [entry.path for entry in await place.sandbox.listdir("/mnt/user-data/outputs")] == [
            "/mnt/user-data/outputs/a.txt"
        ]
        assert await place.sandbox.glob("*.txt", path="/mnt/user-data/outputs") != []
        assert [hit.line for hit in await place.sandbox.grep("more", path="../outputs")] == [2]


@isolated
async def test_skills_and_python_are_read_only(level: Level, tmp_path: Path) -> None:
    async with bench_or_skip(level, tmp_path) as place:
        for path in ("/mnt/skills/public/x", "/mnt/skills/custom/x", "/opt/python/x", "/usr/x"):
            assert (await place.sandbox.run(f"touch {path}")).exit_code != 0
        assert not (place.home / "skills" / "public" / "x").exists()


@every_level
async def test_python_that_is_not_built_names_the_cure(level: Level, tmp_path: Path) -> None:
    async with bench_or_skip(level, tmp_path) as place:
        result = await place.sandbox.run("python -c 'print(1)'")
        assert result.exit_code == 127 and "deerflow sandbox build" in result.output
        assert (await place.provider.probe()).python is None


@isolated
async def test_network_can_be_allowed(level: Level, tmp_path: Path) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        async with bench_or_skip(level, tmp_path, network="allow") as place:
            assert await place.text(f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo open") == "open\n"


@isolated
async def test_allowed_network_does_not_open_local_sockets(level: Level, tmp_path: Path) -> None:
    async with bench_or_skip(level, tmp_path, network="allow") as place:
        if not landlock.scopes_signals(landlock.abi()):
            pytest.skip("this kernel's Landlock has no scopes")
        assert await ATTEMPTS["connect_abstract_socket"](place) == BLOCKED
        assert await ATTEMPTS["connect_unix_socket"](place) == BLOCKED
        assert await ATTEMPTS["signal_host_process"](place) == BLOCKED


async def test_release_while_a_shell_starts(tmp_path: Path) -> None:
    async with bench_or_skip("bwrap", tmp_path) as place:
        for _ in range(6):
            sandbox = await place.provider.acquire("x", folders_of(place.home, "x"))
            starting = asyncio.ensure_future(sandbox.run("true"))
            await asyncio.sleep(0)
            await place.provider.release("x")
            with pytest.raises(SandboxError):
                await starting
            with pytest.raises(SandboxError, match="released"):
                await sandbox.run("true", agent="other")
        assert processes_of(place.sandbox) == set()


def test_domains_are_refused_for_now(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="use allow or deny"):
        LocalProvider(config(network=["example.org"]), state=tmp_path)


def test_the_host_only_by_its_own_provider() -> None:
    assert "host" not in LocalProvider.levels
    assert HostProvider.levels == ("host",)


@every_level
async def test_no_descriptor_process_or_folder_is_left(level: Level, tmp_path: Path) -> None:
    async with bench_or_skip(level, tmp_path) as place:
        await place.text("true")

        async def round_(number: int) -> None:
            sandbox = await place.provider.acquire("x", folders_of(place.home, f"x{number % 3}"))
            await asyncio.gather(
                sandbox.run("seq 1 50000; sleep 30 &", agent="a"),
                sandbox.run("echo b", agent="b", alone=False),
            )
            await place.provider.release("x")

        for number in range(4):
            await round_(number)
        before = len(os.listdir("/proc/self/fd"))
        for number in range(12):
            await round_(number)
        assert len(os.listdir("/proc/self/fd")) <= before
        await place.provider.release("one")
        assert processes_of(place.sandbox) == set()
        assert list((place.home / "sandbox" / "shells").iterdir()) == []


def _start(*arguments: str) -> list[str]:
    paths = [str(Path(__file__).parents[2] / "src"), str(Path(__file__).parents[1])]
    code = f"import sys; sys.path[:0] = {paths!r}; from fakes.server import main; main()"
    return [sys.executable, "-c", code, *arguments]


@every_level
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
async def test_a_dead_server_leaves_no_process(level: Level, number: int, tmp_path: Path) -> None:
    async with bench_or_skip(level, tmp_path):
        pass  # skips where the level is not offered
    server = await asyncio.create_subprocess_exec(
        *_start("hold", level, str(tmp_path / "home")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert server.stdout is not None
    facts = json.loads(await server.stdout.readline())
    sleepers = {process.pid for process in descendants(facts["launcher"])}
    assert len(sleepers) >= 5
    server.send_signal(number)
    await server.wait()
    assert await until(lambda: not sleepers & snapshot().keys())
    assert await until(lambda: facts["launcher"] not in snapshot())
    assert await until(lambda: not any(Path(path).exists() for path in facts["groups"]))
    provider = make_provider(level, tmp_path / "home")
    try:
        sandbox = await provider.acquire("one", folders_of(tmp_path / "home"))
        assert (await sandbox.run("echo again")).output == "again\n"
    finally:
        await provider.close()


@isolated
async def test_a_killed_launcher_takes_its_sandboxes_along(level: Level, tmp_path: Path) -> None:
    async with bench_or_skip(level, tmp_path) as place:
        await place.text("cd /usr; export A=1; setsid sleep 600 & sleep 601 &")
        launcher = place.sandbox.estate.ground.nursery.pid
        sleepers = processes_of(place.sandbox)
        os.kill(launcher, signal.SIGKILL)
        assert await until(lambda: not sleepers & snapshot().keys())
        assert await place.text("pwd; echo $A") == "/usr\n1\n"
        assert place.sandbox.estate.ground.nursery.pid != launcher


@isolated
async def test_many_requests_at_once_do_not_lose_the_launcher(level: Level, tmp_path: Path) -> None:
    async with bench_or_skip(level, tmp_path) as place:
        await place.text("A=1")
        nursery = place.sandbox.estate.ground.nursery
        launcher = nursery.pid
        for number in range(5000):
            nursery.kill(Cradle(f"nobody-{number}"))
        second = await place.sandbox.run("echo two", agent="second")  # waits for its turn
        assert (second.output, await place.text("echo $A")) == ("two\n", "1\n")
        assert nursery.pid == launcher


@isolated
async def test_a_control_group_that_was_removed_is_made_again(level: Level, tmp_path: Path) -> None:
    async with bench_or_skip(level, tmp_path) as place:
        group = place.sandbox.estate.ground.group
        if group is None:
            pytest.skip("no control groups")
        await asyncio.to_thread(group.remove)
        assert await place.text("echo again") == "again\n"
        assert not group.gone


async def test_what_a_crashed_server_left_is_cleared(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    async with bench_or_skip("bwrap", tmp_path) as place:
        owner = place.sandbox.estate.owner
        assert owner is not None
        await place.provider.release("one")
        left = await asyncio.create_subprocess_exec("/bin/sleep", "600", user=owner[0])
        lease = place.provider._premises._leases().take("x", prefer=owner[0])
        lease.settle()
        os.close(lease._fd)  # as a crash would
        await place.provider.acquire("one", place.folders)
        assert await left.wait() == -signal.SIGKILL


async def test_all_uids_taken(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    async with bench_or_skip("bwrap", tmp_path, uid_range="61990-61990") as place:
        with pytest.raises(SandboxUnavailableError, match="uid_range"):
            await place.provider.acquire("two", folders_of(place.home, "two"))


async def test_read_only_state_folder(tmp_path: Path) -> None:
    provider = make_provider("bwrap", Path("/proc/deerflow-none"))
    with pytest.raises(SandboxError, match="could not be made"):
        await provider.acquire("one", folders_of(tmp_path))
    await provider.close()


@isolated
async def test_the_loop_is_never_blocked(level: Level, tmp_path: Path) -> None:
    async with bench_or_skip(level, tmp_path) as place:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0)
                ticks += 1

        ticking = asyncio.ensure_future(tick())
        before = ticks
        await place.text("sleep 0.3; head -c 8M /dev/zero | tr '\\0' x; sleep 0.1")
        ticking.cancel()
        assert ticks - before > 100
