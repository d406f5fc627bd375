"""The command line itself: what it loads to answer quickly, versions, wrong words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deerflow import __version__
from fakes.terminal import Desk, environment

HEAVY = {"langchain", "langchain_core", "langgraph", "sqlalchemy", "alembic", "aiohttp", "rich"}


@pytest.mark.parametrize(
    "args", [["--help"], ["run", "--help"], ["--version"], ["config", "check"]]
)
def test_quick_commands_load_no_agent(tmp_path: Path, args: list[str]) -> None:
    code = (
        "import sys\n"
        "from deerflow.cli.app import main\n"
        f"sys.argv = ['deerflow', *{args!r}]\n"
        "try:\n    main()\n"
        "finally:\n    print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert set(done.stderr.split()) & HEAVY == set()


def test_the_version(tmp_path: Path) -> None:
    ended = Desk(tmp_path).run("--version")
    assert (ended.code, ended.out, ended.err) == (0, f"deerflow {__version__}\n", "")


def test_an_unknown_command_names_the_nearest(tmp_path: Path) -> None:
    ended = Desk(tmp_path).run("thread", "list")
    assert (ended.code, ended.out) == (2, "")
    assert "No such command 'thread'" in ended.err
    assert list(tmp_path.iterdir()) == []
