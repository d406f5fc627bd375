"""The traps of running bubblewrap and Landlock from a server, one test (or more) each."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deerflow.errors import PathError
from deerflow.sandbox import probe
from deerflow.sandbox.premises import Premises
from deerflow.sandbox.protocol import Level
from deerflow.sandbox.tree import snapshot
from fakes.sandboxes import ISOLATED, bench_or_skip, config, folders_of, processes_of, until

PYTHON = "/usr/bin/python3 -c '{}'"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture(params=ISOLATED)
def level(request: pytest.FixtureRequest) -> Level:
    return request.param


def _environment(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def zombies_of(parent: int) -> list[int]:
    return [p.pid for p in snapshot().values() if p.parent == parent and p.zombie]


async def test_trap_1_init_has_no_environment(
    level: Level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEERFLOW_TEST_KEY", "sk-secret")
    async with bench_or_skip(level, tmp_path) as place:
        if level == "bwrap":
            assert await place.text("cat /proc/1/environ | wc -c") == "0\n"
        for pid in processes_of(place.sandbox) | {place.sandbox.estate.ground.nursery.pid}:
            assert b"sk-secret" not in _environment(pid)
        assert "DEERFLOW_TEST_KEY" not in await place.text("env; declare -p")


@needs_root
async def test_trap_2_every_sandbox_has_its_own_uid(level: Level, tmp_path: Path) -> None:
    async with bench_or_skip(level, tmp_path) as place:
        other = await place.provider.acquire("two", folders_of(place.home, "two"))
        uids: list[int] = []
        for sandbox in (place.sandbox, other):
            owner = sandbox.estate.owner
            assert owner is not None and 61000 <= owner[0] <= 61999
            await sandbox.run("echo made > made.txt; sleep 30 &")
            await sandbox.write("deep/written.txt", b"by a tool")
            folder = sandbox.estate.ground.site.folders.workspace
            for name in ("made.txt", "deep", "deep/written.txt", "."):
                assert (folder / name).stat().st_uid == owner[0]
            uids.append(owner[0])
        assert uids[0] != uids[1]
        running = {os.stat(f"/proc/{pid}").st_uid for pid in processes_of(place.sandbox)}
        assert set(uids) <= running and 65534 not in running


@needs_root
async def test_trap_2_files_of_root_stay_closed(level: Level, tmp_path: Path) -> None:
    async with bench_or_skip(level, tmp_path) as place:
        place.folders.workspace.joinpath("late.txt").write_text("root's", encoding="utf-8")
        place.folders.workspace.joinpath("late.txt").chmod(0o600)
        result = await place.sandbox.run("cat late.txt")
        assert result.exit_code != 0 and "root's" not in result.output


@needs_root
async def test_trap_2_next_lease_takes_the_files_over(level: Level, tmp_path: Path) -> None:
    async with bench_or_skip(level, tmp_path) as place:
        await place.sandbox.run("mkdir d; echo one > d/a; ln -s /etc/passwd link; chmod 700 d")
        before = place.sandbox.estate.owner
        await place.provider.release("one")
        taker = place.provider._premises._leases().take("x", prefer=before[0] if before else None)
        sandbox = await place.provider.acquire("one", place.folders)
        after = sandbox.estate.owner
        assert before != after
        assert (await sandbox.run("cat d/a && echo two > d/a && cat d/a")).output == "one\ntwo\n"
        assert os.stat("/etc/passwd").st_uid == 0
        taker.release()


async def test_trap_3_process_limit_counts_the_sandbox_alone(level: Level, tmp_path: Path) -> None:
    async with bench_or_skip(level, tmp_path) as place:
        owner = place.sandbox.estate.owner
        if owner is None and level == "landlock":
            pytest.skip("without an own uid the limit counts all processes of the user")
        uid = owner[0] if owner is not None and level == "bwrap" else None
        if uid is not None:
            uid -= 1 if uid > 61000 else -1  # a neighbour's processes do not count either
        crowd = [
            await asyncio.create_subprocess_exec("/bin/sleep", "60", user=uid) for _ in range(60)
        ]
        try:
            out = await place.text("for i in $(seq 20); do sleep 20 & done; echo started")
            assert out == "started\n"
            result = await place.sandbox.run("ulimit -u; ulimit -Hu")
            soft, hard = result.output.split()
            assert soft == hard != "unlimited"
        finally:
            for process in crowd:
                process.kill()
                await process.wait()


async def test_trap_4_no_zombies_and_nothing_left(level: Level, tmp_path: Path) -> None:
    async with bench_or_skip(level, tmp_path) as place:
        launcher = place.sandbox.estate.ground.nursery.pid
        for number in range(12):
            sandbox = await place.provider.acquire(f"k{number}", folders_of(place.home, "k"))
            await sandbox.run("(sleep 60 &); for i in 1 2 3 4 5; do (true &) ; done")
            await place.provider.release(f"k{number}")
        await place.text("for i in $(seq 100); do (true &); done; sleep 0.1")
        inside = [p for p in processes_of(place.sandbox) if _is_zombie(p)]
        assert await until(lambda: not [p for p in inside if _is_zombie(p)])
        assert zombies_of(launcher) == [] and zombies_of(os.getpid()) == []
        await place.provider.release("one")
        assert processes_of(place.sandbox) == set()


def _is_zombie(pid: int) -> bool:
    process = snapshot().get(pid)
    return process is not None and process.zombie


async def test_trap_4_the_servers_own_children_are_not_reaped_away(
    level: Level, tmp_path: Path
) -> None:
    async with bench_or_skip(level, tmp_path) as place:
        child = await asyncio.create_subprocess_exec("/bin/sh", "-c", "exit 7")
        await place.text("true")
        assert await child.wait() == 7


async def test_trap_5_memory_is_limited_but_address_space_is_not(
    level: Level, tmp_path: Path
) -> None:
    async with bench_or_skip(level, tmp_path) as place:
        reserve = "import mmap; m = mmap.mmap(-1, 8 << 30, prot=0); print(len(m) >> 30)"
        assert await place.text(PYTHON.format(reserve)) == "8\n"
        use = "b = bytearray(400 << 20); print(len(b))"
        result = await place.sandbox.run(PYTHON.format(use))
        assert result.exit_code != 0 and "419430400" not in result.output


async def test_trap_6_home_below_a_closed_folder(level: Level, tmp_path: Path) -> None:
    async with bench_or_skip(level, tmp_path) as place:
        assert await place.text("echo in > f; cat f; cat /mnt/skills/public/SKILL.md") == (
            "in\na public skill\n"
        )
        folder = place.home
        modes: list[int] = []
        while folder != tmp_path:
            folder = folder.parent
            modes.append(folder.stat().st_mode & 0o777)
        assert 0o700 in modes  # the parent is as closed as before


@pytest.mark.parametrize("link", ["/etc/passwd", "../../../secret", "/proc/self/root/etc/passwd"])
async def test_trap_7_links_do_not_lead_file_tools_out(tmp_path: Path, link: str) -> None:
    async with bench_or_skip("bwrap", tmp_path) as place:
        (place.folders.root.parent / "secret").write_text("hidden", encoding="utf-8")
        await place.text(f"ln -s {link} out; ln -s {os.path.dirname(link)} folder")
        with pytest.raises(PathError):
            await place.sandbox.read("out")
        with pytest.raises(PathError):
            await place.sandbox.read(f"folder/{os.path.basename(link)}")
        await place.text("rm -rf .tool-results; ln -s ../uploads .tool-results")
        long = await place.sandbox.run("seq 1 9999")
        assert (long.spill, list(place.folders.uploads.iterdir())) == (None, [])


def _report(home: Path, *before: str) -> dict[str, object]:
    paths = [str(Path(__file__).parents[2] / "src"), str(Path(__file__).parents[1])]
    start = f"import sys; sys.path[:0] = {paths!r}; from fakes.server import main; main()"
    done = subprocess.run(
        [*before, sys.executable, "-c", start, "report", str(home)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_trap_8_closed_user_namespaces_fall_back_to_landlock(tmp_path: Path) -> None:
    unshare = shutil.which("unshare")
    close = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    prefix = [str(unshare), "--user", "--map-root-user", "/bin/sh", "-c", close, "sh"]
    if unshare is None or subprocess.run([*prefix, "true"], check=False).returncode != 0:
        pytest.skip("cannot make a place where user namespaces are closed")
    found = _report(tmp_path, *prefix)
    assert found["level"] == "landlock", found
    assert found["reasons"] == ["bwrap: user namespaces are closed on this machine"]
    said = str(found["said"])
    assert said.startswith("/mnt/user-data/workspace\n") and said.endswith("Seccomp:\t2\n")
    assert "root:" not in said


def test_trap_8_nothing_left_is_an_error_and_never_the_host(tmp_path: Path) -> None:

    async def find() -> probe.Finding:
        premises = Premises(config(), tmp_path / "sandbox", None, bwrap="")
        await premises.open()
        try:
            return await probe.probe(premises, ["bwrap"])
        finally:
            await premises.close()

    finding = asyncio.run(find())
    assert not finding.works
    assert finding.report.reasons == (
        "bwrap: bubblewrap is not installed (apt install bubblewrap)",
    )
