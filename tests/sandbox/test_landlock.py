"""Landlock's own rules, in a child, without any other layer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deerflow.sandbox import landlock

SOURCES = str(Path(__file__).parents[2] / "src")

pytestmark = pytest.mark.skipif(not landlock.abi(), reason="the kernel has no Landlock")


def confined(read: list[str], write: list[str], code: str) -> str:
    """What a program prints after it confined itself."""
    head = (
        f"import sys; sys.path.insert(0, {SOURCES!r})\n"
        "import errno, os, socket\nfrom deerflow.sandbox import landlock\n"
        f"landlock.restrict({read!r}, {write!r}, network=False)\n"
        "def attempt(work):\n"
        "    try:\n        work(); print('done')\n"
        "    except OSError as error:\n        print(errno.errorcode[error.errno])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", head + code], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_paths(tmp_path: Path) -> None:
    for name in ("read", "write", "none"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text(name, encoding="utf-8")
    code = "".join(
        f"attempt(lambda: open({str(tmp_path / name / 'f')!r}, {mode!r}))\n"
        for name in ("read", "write", "none")
        for mode in ("r", "a")
    )
    out = confined([str(tmp_path / "read"), "/missing"], [str(tmp_path / "write")], code)
    assert out.split() == ["done", "EACCES", "done", "done", "EACCES", "EACCES"]


def test_devices_cannot_be_made(tmp_path: Path) -> None:
    code = f"attempt(lambda: os.mknod({str(tmp_path / 'd')!r}, 0o020600, os.makedev(1, 3)))\n"
    assert confined([], [str(tmp_path)], code).strip() in ("EACCES", "EPERM")


@pytest.mark.skipif(landlock.abi() < 4, reason="needs ABI 4")
def test_tcp_is_closed() -> None:
    code = "attempt(lambda: socket.create_connection(('127.0.0.1', 9), timeout=1))\n"
    assert confined([], [], code) == "EACCES\n"


@pytest.mark.skipif(not landlock.scopes_signals(landlock.abi()), reason="needs ABI 6")
def test_signals_stay_inside() -> None:
    code = (
        "attempt(lambda: os.kill(os.getppid(), 0))\n"
        "child = os.fork()\n"
        "if child == 0: os._exit(0)\n"
        "attempt(lambda: os.kill(child, 0))\n"
    )
    assert confined([], [], code) == "EPERM\ndone\n"
