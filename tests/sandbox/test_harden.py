"""A process that confined itself: tried from inside."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import os, socket, sys, threading
from pathlib import Path
from deerflow.sandbox.harden import harden
harden([sys.prefix, sys.base_prefix, sys.argv[1]], memory=300_000_000, seconds=2)
allowed, secret, outside = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
"""


def hardened(tmp_path: Path, code: str) -> subprocess.CompletedProcess[str]:
    allowed = tmp_path / "allowed"
    allowed.mkdir(exist_ok=True)
    (allowed / "text").write_text("readable")
    (tmp_path / "secret").write_text("secret")
    sources = str(Path(__file__).parents[2] / "src")
    program = f"import sys; sys.path.insert(0, {sources!r})\n{_PROGRAM}\n{code}"
    given = [str(allowed), str(tmp_path / "secret"), str(os.getpid())]
    return subprocess.run(
        [sys.executable, "-I", "-B", "-c", program, *given],
        capture_output=True,
        text=True,
        env={},
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "attempt",
    [
        "socket.create_connection(('127.0.0.1', 5432), 5)",
        "socket.socket(socket.AF_UNIX)",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))",
        "secret.read_text()",
        "Path('/etc/passwd').read_text()",
        "os.listdir('/root')",
        "secret.write_text('x')",
        "(allowed / 'text').write_text('x')",
        "(allowed / 'new').write_text('x')",
        "secret.unlink()",
        "os.kill(outside, 0)",
        "Path(f'/proc/{outside}/environ').read_bytes()",
    ],
)
def test_what_is_refused(attempt: str, tmp_path: Path) -> None:
    code = f"""
try:
    {attempt}
except OSError as error:
    print("refused")
"""
    assert hardened(tmp_path, code).stdout == "refused\n"
    assert (tmp_path / "secret").read_text() == "secret"


def test_threads_that_begin_later_are_confined_too(tmp_path: Path) -> None:
    code = """
def attempt():
    try:
        print(secret.read_text())
    except OSError:
        print("refused")
thread = threading.Thread(target=attempt)
thread.start()
thread.join()
"""
    assert hardened(tmp_path, code).stdout == "refused\n"


def test_what_it_may_do(tmp_path: Path) -> None:
    done = hardened(tmp_path, "print((allowed / 'text').read_text())\nimport decimal, sqlite3")
    assert (done.stdout, done.returncode) == ("readable\n", 0)


def test_memory_is_bounded(tmp_path: Path) -> None:
    code = "try:\n    bytearray(1_000_000_000)\nexcept MemoryError:\n    print('bounded')"
    assert hardened(tmp_path, code).stdout == "bounded\n"


def test_time_is_bounded(tmp_path: Path) -> None:
    assert hardened(tmp_path, "while True: pass").returncode < 0


def test_exit_codes_come_through(tmp_path: Path) -> None:
    assert hardened(tmp_path, "raise SystemExit(7)").returncode == 7
