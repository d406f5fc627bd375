"""The file tree on the host: nothing leaves it, nothing half-written stays, nothing hangs."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from deerflow.errors import ConflictError, DeerFlowError, PathError, SandboxError, ToolError
from deerflow.sandbox.files import FileTree
from deerflow.sandbox.protocol import ThreadFolders
from fakes.folders import Home, refused


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


async def test_absolute_link_to_a_file_outside(home: Home) -> None:
    (home.work / "key").symlink_to(home.secret / "key")
    await refused(home, "key")


async def test_relative_link_to_a_file_outside(home: Home) -> None:
    (home.work / "key").symlink_to("../../../secret/key")
    await refused(home, "key")


async def test_linked_directory_outside(home: Home) -> None:
    (home.work / "dir").symlink_to(home.secret)
    (home.work / "up").symlink_to("../../../secret")
    for name in ("dir", "up"):
        for path in (f"{name}/key", f"{name}/new", f"{name}/deep/new"):
            await refused(home, path)


async def test_link_chain_and_loop(home: Home) -> None:
    (home.work / "a").symlink_to("b")
    (home.work / "b").symlink_to(home.secret)
    await refused(home, "a/key")
    (home.work / "x").symlink_to("y")
    (home.work / "y").symlink_to("x")
    with pytest.raises(PathError, match="too many links"):
        await home.tree.read("x")


async def test_magic_links_are_not_followed(home: Home) -> None:
    (home.work / "fd").symlink_to("/proc/self/root/etc/passwd")
    await refused(home, "fd")


async def test_links_that_stay_inside_are_followed(home: Home) -> None:
    (home.folders.uploads / "data.csv").write_bytes(b"1,2")
    (home.work / "deep").mkdir()
    (home.work / "deep" / "f").write_bytes(b"deep")
    (home.work / "near").symlink_to("deep")
    (home.work / "absolute").symlink_to("/mnt/user-data/uploads/data.csv")
    (home.work / "sideways").symlink_to("../outputs")
    assert await home.tree.read("near/f") == b"deep"
    assert await home.tree.read("absolute") == b"1,2"
    await home.tree.write("sideways/new/r.md", b"r")
    assert (home.folders.outputs / "new" / "r.md").read_bytes() == b"r"
    await home.tree.write("absolute", b"3")
    assert (home.folders.uploads / "data.csv").read_bytes() == b"3"
    assert (home.work / "absolute").is_symlink()


async def test_links_by_host_paths_count_by_where_they_lead(home: Home) -> None:
    """Without mounts (Landlock, host) `ln -s "$PWD/x"` writes a host path."""
    (home.folders.uploads / "data.csv").write_bytes(b"1,2")
    (home.work / "inside").symlink_to(home.folders.uploads / "data.csv")
    (home.work / "sibling").symlink_to(f"{home.work}-other/x")
    (home.work / "up").symlink_to(home.work / ".." / ".." / ".." / "secret")
    assert await home.tree.read("inside") == b"1,2"
    await refused(home, "sibling")
    await refused(home, "up/key")


async def test_a_link_into_the_skills_is_read_but_not_written(home: Home) -> None:
    (home.work / "skill").symlink_to("/mnt/skills/public/pdf")
    assert await home.tree.read("skill/SKILL.md") == b"how to read a pdf"
    for path in ("skill/SKILL.md", "skill/new", "/mnt/skills/public/x", "/mnt/skills/public"):
        with pytest.raises(PathError):
            await home.tree.write(path, b"")
    with pytest.raises(PathError, match="read-only"):
        await home.tree.write("/mnt/skills/public/pdf/SKILL.md", b"")


async def test_special_files_are_refused_without_waiting(home: Home) -> None:
    os.mkfifo(home.work / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        directory = os.open(home.work, os.O_PATH)
        listener.bind(f"/proc/self/fd/{directory}/socket")
        os.close(directory)
        for name in ("fifo", "socket"):
            with pytest.raises(PathError, match="not a"):
                await asyncio.wait_for(home.tree.read(name), 5)
            with pytest.raises(PathError, match="not a regular file"):
                await asyncio.wait_for(home.tree.write(name, b"x"), 5)
    assert await asyncio.wait_for(home.tree.grep("x"), 5) == []
    assert [info.path[-4:] for info in await home.tree.listdir("")] == ["fifo", "cket"]


@pytest.mark.skipif(os.geteuid() != 0, reason="device nodes need root")
async def test_devices_are_refused(home: Home) -> None:
    os.mknod(home.work / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    with pytest.raises(PathError, match="device"):
        await home.tree.read("zero")


async def test_writes_are_atomic_and_keep_the_mode(home: Home) -> None:
    script = home.work / "run.sh"
    script.write_bytes(b"old")
    script.chmod(0o750)
    held = script.open("rb")
    info = await home.tree.write("run.sh", b"new")
    with held:
        assert held.read() == b"old"
    assert script.read_bytes() == b"new"
    assert stat.S_IMODE(script.stat().st_mode) == 0o750
    assert info.sha256 == hashlib.sha256(b"new").hexdigest()
    assert info.path == "/mnt/user-data/workspace/run.sh"
    assert os.listdir(home.work) == ["run.sh"]
    await home.tree.write("plain", b"")
    assert stat.S_IMODE((home.work / "plain").stat().st_mode) == 0o644


async def test_set_uid_bits_do_not_survive(home: Home) -> None:
    tool = home.work / "tool"
    tool.write_bytes(b"old")
    tool.chmod(0o4755)
    await home.tree.write("tool", b"new")
    assert stat.S_IMODE(tool.stat().st_mode) == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="chown needs root")
async def test_what_is_made_belongs_to_the_sandbox(tmp_path: Path) -> None:
    folders = ThreadFolders(root=tmp_path / "user-data")
    tree = FileTree(folders, (61007, 61008))
    await tree.prepare()
    await tree.write("a/b/c.txt", b"x")
    await tree.write("a/b/c.txt", b"y")
    made = [folders.workspace, folders.outputs, folders.uploads]
    made += [folders.workspace / name for name in ("a", "a/b", "a/b/c.txt")]
    assert {(path.stat().st_uid, path.stat().st_gid) for path in made} == {(61007, 61008)}
    assert folders.root.stat().st_uid == 0


async def test_a_failed_write_leaves_the_old_file_alone(home: Home) -> None:
    tree = FileTree(home.folders, max_bytes=10)
    await tree.write("f", b"0123456789")
    with pytest.raises(SandboxError, match="10 are allowed"):
        await tree.write("f", b"0123456789a")
    (home.work / "dir").mkdir()
    with pytest.raises(PathError, match="is a directory"):
        await tree.write("dir", b"x")
    with pytest.raises(PathError, match="not a directory"):
        await tree.write("f/below", b"x")
    assert (home.work / "f").read_bytes() == b"0123456789"
    assert sorted(os.listdir(home.work)) == ["dir", "f"]


async def test_a_full_disk_is_told_and_leaves_nothing(home: Home) -> None:
    import resource  # noqa: PLC0415 - only this test limits the process

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(SandboxError, match="no space left"):
            await home.tree.write("big", b"x" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(home.work) == []


async def test_expected_version(home: Home) -> None:
    first = await home.tree.write("f", b"1")
    assert first.sha256 is not None
    await home.tree.write("f", b"2", expect_sha256=first.sha256)
    with pytest.raises(ConflictError, match="has changed"):
        await home.tree.write("f", b"3", expect_sha256=first.sha256)
    with pytest.raises(ConflictError):
        await home.tree.write("missing", b"3", expect_sha256=first.sha256)
    assert (home.work / "f").read_bytes() == b"2"
    assert not (home.work / "missing").exists()


async def test_huge_files_are_read_in_slices(home: Home) -> None:
    with (home.work / "huge").open("wb") as file:
        file.seek(5 << 30)
        file.write(b"end")
    with pytest.raises(PathError, match="too many to read at once"):
        await home.tree.read("huge")
    assert await home.tree.read("huge", offset=5 << 30) == b"end"
    assert await home.tree.read("huge", offset=(5 << 30) + 1, length=1) == b"n"
    assert await home.tree.read("huge", offset=6 << 30, length=10) == b""


async def test_names_of_every_script_and_undecodable_ones(home: Home) -> None:
    for name in ("范围 — 结论.txt", "🦌 報告.md", "a b'\"$(x).txt", "back\\slash"):
        path = f"/mnt/user-data/workspace/{name}"
        await home.tree.write(path, name.encode())
        assert await home.tree.read(path) == name.encode()
        assert path in [info.path for info in await home.tree.listdir("")]
    os.mknod(os.fsencode(home.work) + b"/b\xe9")
    listed = [info.path for info in await home.tree.listdir("")]
    assert "/mnt/user-data/workspace/b\\xe9" in listed
    "".join(listed).encode()
    with pytest.raises(PathError, match="too long"):
        await home.tree.write("界" * 100, b"")


async def test_stat(home: Home) -> None:
    assert await home.tree.stat("none") is None
    assert await home.tree.stat("none/none") is None
    await home.tree.write("f", b"abc")
    assert await home.tree.stat("f/none") is None
    info = await home.tree.stat("f", digest=True)
    assert info is not None
    assert (info.kind, info.size, info.sha256) == ("file", 3, hashlib.sha256(b"abc").hexdigest())
    (home.work / "broken").symlink_to("nowhere")
    assert await home.tree.stat("broken") is None


async def test_folders_that_nobody_made_yet_are_empty(tmp_path: Path) -> None:
    tree = FileTree(ThreadFolders(root=tmp_path / "none"))
    assert await tree.listdir("") == []
    assert await tree.glob("**/*") == []
    assert await tree.grep("x") == []
    info = await tree.stat("/mnt/user-data/outputs")
    assert info is not None
    assert info.kind == "dir"
    assert not (tmp_path / "none").exists()
    await tree.write("/mnt/user-data/outputs/a/b.md", b"x")
    assert (tmp_path / "none" / "outputs" / "a" / "b.md").read_bytes() == b"x"


async def test_half_written_files_are_not_listed(home: Home) -> None:
    (home.work / ".deerflow-tmp-0").write_bytes(b"x")
    assert await home.tree.listdir("") == []
    assert await home.tree.glob("*") == []


async def test_closed_files_say_so(home: Home) -> None:
    if os.geteuid() == 0:
        pytest.skip("root opens everything")
    (home.work / "closed").write_bytes(b"x")
    (home.work / "closed").chmod(0)
    with pytest.raises(PathError, match="may not be opened"):
        await home.tree.read("closed")


async def test_a_runaway_pattern_is_stopped(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deerflow.sandbox.search.MAX_SECONDS", 0.3)
    await home.tree.write("a", b"a" * 100 + b"!")
    with pytest.raises(ToolError, match="stopped|too long"):
        await asyncio.wait_for(home.tree.grep(r"^(a|a?)+$|^(a|aa)+b"), 20)


async def test_the_loop_stays_free_while_files_are_searched(home: Home) -> None:
    for number in range(300):
        (home.work / f"f{number}").write_bytes(b"line\n" * 200)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticker = asyncio.create_task(tick())
    assert len(await home.tree.grep("line$", limit=50_000)) == 50_000
    ticker.cancel()
    assert ticks > 10


async def test_no_descriptor_is_left_open(home: Home) -> None:
    (home.work / "out").symlink_to(home.secret)
    (home.work / "in").symlink_to("/mnt/user-data/outputs")
    await home.tree.write("a/b", b"x")

    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    await home.tree.read("a/b")
    before = descriptors()
    for path in ("a/b", "a", "none", "none/none", "a/b/c", "out/key", "in/x", "/mnt", "/etc/x"):
        for call in (
            home.tree.read(path),
            home.tree.stat(path, digest=True),
            home.tree.listdir(path),
            home.tree.grep("x", path=path),
            home.tree.write(path, b"x"),
        ):
            try:
                await call
            except DeerFlowError:
                continue
    assert descriptors() == before


WRITER = """
import asyncio, sys
from pathlib import Path
from deerflow.sandbox.files import FileTree
from deerflow.sandbox.protocol import ThreadFolders

async def main():
    tree = FileTree(ThreadFolders(Path(sys.argv[1])))
    while True:
        for letter in (b"a", b"b"):
            await tree.write("f", letter * 3_000_000)
            print(flush=True)

asyncio.run(main())
"""


def test_a_kill_in_the_middle_of_a_write_leaves_a_whole_file(tmp_path: Path) -> None:
    work = tmp_path / "workspace"
    for writes in range(1, 7):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            for _ in range(writes):
                process.stdout.readline()
            process.kill()
        data = (work / "f").read_bytes()
        assert len(data) == 3_000_000
        assert data in (b"a" * 3_000_000, b"b" * 3_000_000)
        assert [name for name in os.listdir(work) if not name.startswith(".deerflow-tmp-")] == ["f"]
