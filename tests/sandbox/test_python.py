"""The sandbox's own Python: built whole or not at all, at home under any mount point."""

from __future__ import annotations

import asyncio
import base64
import fcntl
import hashlib
import os
import shutil
import stat
import subprocess
import zipfile
from pathlib import Path

import orjson
import pytest

from deerflow.errors import SandboxError
from deerflow.sandbox import python as module
from deerflow.sandbox.python import BASES, MANIFEST, build, describe, read_manifest

pytestmark = pytest.mark.skipif(
    not any(base.exists() for base in BASES), reason="no system Python below /usr"
)


def wheel(folder: Path, name: str = "Demo_Pack", version: str = "1.2") -> str:
    """A requirement for a wheel made here, with a module and a script."""
    files = {
        "demo_pack.py": "def main():\n    print('demo')\n",
        f"{name}-{version}.dist-info/METADATA": (
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        ),
        f"{name}-{version}.dist-info/WHEEL": (
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
        f"{name}-{version}.dist-info/entry_points.txt": (
            "[console_scripts]\ndemo = demo_pack:main\n"
        ),
        f"{name}-{version}.data/scripts/tool.py": "#!python\nprint('tool')\n",
    }
    record = f"{name}-{version}.dist-info/RECORD"
    rows = [f"{path},sha256={digest(text.encode())},{len(text)}" for path, text in files.items()]
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for entry, text in files.items():
            archive.writestr(entry, text)
        archive.writestr(record, "\n".join([*rows, f"{record},,"]) + "\n")
    return f"demo-pack @ {path.as_uri()}"


def digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def ran(*command: str | Path) -> str:
    done = subprocess.run(
        list(map(str, command)), env={}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture(params=["uv", "venv"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With uv, and with the standard library's venv and pip."""
    if request.param == "venv":
        monkeypatch.setattr(module, "find_uv", lambda: None)
        usable = subprocess.run(
            ["/usr/bin/python3", "-c", "import venv, ensurepip"], capture_output=True, check=False
        )
        if usable.returncode != 0:
            pytest.skip("the system's Python has no ensurepip")
    elif shutil.which("uv") is None:
        pytest.skip("no uv")
    return request.param


async def test_build_move_and_describe(tmp_path: Path, way: str) -> None:
    folder = tmp_path / "home" / "sandbox" / "python"
    told: list[str] = []
    manifest = await build(folder, [wheel(tmp_path)], say=told.append)
    assert manifest.packages["Demo_Pack"] == "1.2"
    assert read_manifest(folder) == manifest
    version = ".".join(manifest.version.split(".")[:2])
    assert describe(folder) == f"Python {version} with demo-pack 1.2"
    assert any("ready" in line for line in told)
    assert [entry.name for entry in folder.parent.iterdir() if entry.name != ".python.lock"] == [
        "python"
    ]
    assert (folder / "bin" / "python").resolve().is_relative_to("/usr")
    moved = tmp_path / "opt"
    folder.rename(moved)
    code = "import sys, demo_pack; demo_pack.main(); print(sys.prefix)"
    assert ran(moved / "bin" / "python", "-c", code).split() == ["demo", str(moved)]
    head = (moved / "bin" / "demo").read_bytes().split(b"\n")[0]
    assert str(tmp_path).encode() not in head
    closed = [
        path
        for path in moved.rglob("*")
        if not path.is_symlink() and not path.stat().st_mode & stat.S_IROTH
    ]
    assert closed == []


async def test_up_to_date_is_quick_and_a_changed_list_builds_again(tmp_path: Path) -> None:
    folder = tmp_path / "python"
    await build(folder, [], say=print)
    before = folder.stat().st_ino
    told: list[str] = []
    await build(folder, [], say=told.append)
    assert folder.stat().st_ino == before
    assert told == [f"The sandbox's Python is up to date: {describe(folder)}."]
    changed = await build(folder, [wheel(tmp_path)], say=print)
    assert folder.stat().st_ino != before
    assert changed.requested == (wheel(tmp_path),)
    again = await build(folder, [wheel(tmp_path)], say=print, again=True)
    assert again == changed


async def test_a_failed_build_leaves_the_old_one(tmp_path: Path) -> None:
    folder = tmp_path / "python"
    await build(folder, [], say=print)
    before = folder.stat().st_ino
    told: list[str] = []
    missing = f"nothing @ {(tmp_path / 'nothing-1-py3-none-any.whl').as_uri()}"
    with pytest.raises(SandboxError, match="ended with exit code") as caught:
        await build(folder, [missing], say=told.append)
    assert str(tmp_path) not in str(caught.value)
    assert any("nothing" in line for line in told)
    assert folder.stat().st_ino == before
    assert sorted(os.listdir(tmp_path)) == [".python.lock", "python"]


async def test_a_cancelled_build_leaves_no_process_and_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "uv"
    slow.write_text("#!/bin/sh\n[ $1 = --version ] && exit\necho $$ >&2\nexec sleep 600\n")
    slow.chmod(0o755)
    monkeypatch.setattr(module, "find_uv", lambda: str(slow))
    started = asyncio.Event()
    pids: list[int] = []

    def say(line: str) -> None:
        if line.isdigit():
            pids.append(int(line))
            started.set()

    task = asyncio.create_task(build(tmp_path / "python", [], say=say))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
    assert sorted(os.listdir(tmp_path)) == [".python.lock", "uv"]


async def test_a_uv_that_does_not_run_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim = tmp_path / "uv"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setattr(module, "find_uv", lambda: str(shim))
    base = tmp_path / "python3"
    base.write_text('#!/bin/sh\necho "$*" >&2\nexit 9\n')
    base.chmod(0o755)
    told: list[str] = []
    found = module.Base(base, (3, 11, 2))
    with pytest.raises(SandboxError, match="python3 -m venv") as caught:
        await module._make(tmp_path / "x", found, (), told.append)
    assert "python3-venv" in caught.value.cure
    assert told[-1].startswith("-m venv")


async def test_two_builds_at_once(tmp_path: Path) -> None:
    with (tmp_path / ".python.lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(SandboxError, match="Another build"):
            await build(tmp_path / "python", [], say=print)
    (tmp_path / ".python-killed").mkdir()
    await build(tmp_path / "python", [], say=print)
    assert sorted(os.listdir(tmp_path)) == [".python.lock", "python"]


async def test_interpreters_that_a_sandbox_cannot_use(tmp_path: Path) -> None:
    old = tmp_path / "python3.8"
    old.write_text('#!/bin/sh\necho \'{"version": [3, 8, 1], "prefix": "/usr"}\'\n')
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 1\n")
    for script in (old, broken):
        script.chmod(0o755)
    with pytest.raises(SandboxError, match=r"no Python 3\.9 or newer .*3\.8\.1") as caught:
        await build(tmp_path / "x", [], say=print, bases=[tmp_path / "none", broken, old])
    assert "python3" in caught.value.cure


def test_damaged_manifests_count_as_none(tmp_path: Path) -> None:
    assert describe(None) is None
    assert describe(tmp_path / "none") is None
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    good = {"layout": 1, "base": "/usr/bin/python3", "version": "3.11.2", "requested": ["a>1"]}
    for text in (b"", b"[]", b"{}", orjson.dumps({**good, "packages": []})):
        (tmp_path / MANIFEST).write_bytes(text)
        assert describe(tmp_path) is None
    (tmp_path / MANIFEST).write_bytes(orjson.dumps({**good, "packages": {"A": "2"}}))
    assert describe(tmp_path) == "Python 3.11 with a 2"
    (tmp_path / MANIFEST).write_bytes(orjson.dumps({**good, "packages": {}}))
    assert describe(tmp_path) == "Python 3.11"
