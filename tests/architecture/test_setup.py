"""Set-up on a machine that has next to nothing says what to do."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from fakes.tree import ROOT

TOOLS = ("sh", "dirname", "rm", "cat")


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A copy of the scripts and a PATH of the simplest tools: no root, no sudo, no uv."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    stub(tools / "id", "echo 1000")
    stub(tools / "python3", "exit 1")
    return tmp_path


def stub(file: Path, line: str) -> None:
    file.write_text(f"#!/bin/sh\n{line}\n")
    file.chmod(0o755)


def script(folder: Path, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(folder / "scripts" / name), *arguments],
        env={"PATH": str(folder / "bin")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_without_uv_venv_pip_and_root_the_cure_is_named(bare: Path) -> None:
    done = script(bare, "uv.sh", "sync")
    assert done.returncode == 1
    assert "apt-get install python3-venv" in done.stderr
    assert not (bare / ".uv").exists()


def test_a_uv_on_the_path_is_used(bare: Path) -> None:
    stub(bare / "bin" / "uv", 'echo "uv $*"')
    done = script(bare, "uv.sh", "sync", "--frozen")
    assert (done.returncode, done.stdout) == (0, "uv sync --frozen\n")


def test_a_uv_that_does_not_start_is_passed_over(bare: Path) -> None:
    stub(bare / "bin" / "uv", "exit 127")
    assert script(bare, "uv.sh", "sync").returncode == 1


def test_without_bubblewrap_set_up_goes_on(bare: Path) -> None:
    done = script(bare, "system.sh")
    assert done.returncode == 0
    assert "falls back to Landlock" in done.stderr


def test_bubblewrap_is_installed_where_that_is_allowed(bare: Path) -> None:
    stub(bare / "bin" / "id", "echo 0")
    (bare / "bin" / "env").symlink_to(shutil.which("env") or "")
    stub(
        bare / "bin" / "apt-get",
        f'echo "$*" >> "{bare}/log"; echo "#!/bin/sh" > "{bare}/bin/bwrap"; '
        f'{shutil.which("chmod")} +x "{bare}/bin/bwrap"',
    )
    assert script(bare, "system.sh").returncode == 0
    assert "install -y -qq bubblewrap" in (bare / "log").read_text()
