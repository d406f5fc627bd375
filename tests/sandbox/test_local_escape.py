"""The escape suite: every attempt is blocked at every level, for root and for an ordinary user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import deerflow
from deerflow.errors import SandboxUnavailableError
from fakes.escapes import ATTEMPTS, BLOCKED, LEAKS_ON_HOST
from fakes.sandboxes import ISOLATED, skip_where_not_offered

ORDINARY = 60999
"""A uid outside the sandboxes' range."""

Results = Callable[[str, str], dict[str, str]]


def _starts(interpreter: str) -> bool:
    command = [interpreter, "-I", "-S", "-c", ""]
    try:
        done = subprocess.run(command, user=ORDINARY, group=ORDINARY, extra_groups=[], check=False)
    except PermissionError:
        return False
    return done.returncode == 0


def _interpreter() -> str:
    """An interpreter that an ordinary user may start; this one may lie in root's home."""
    for path in (sys.executable, "/usr/bin/python3"):
        if _starts(path):
            return path
    pytest.skip("an ordinary user can start no Python here")


def _run(level: str, who: str, folder: Path) -> dict[str, str]:
    """All attempts in an own process, from a copy of the package that everybody may read."""
    sources = folder / "src"
    shutil.copytree(Path(deerflow.__file__).parent, sources / "deerflow")
    uid, interpreter = "-1", sys.executable
    home = folder / "home"
    home.mkdir(mode=0o700)
    if who == "ordinary" and os.geteuid() == 0:
        uid, interpreter = str(ORDINARY), _interpreter()
        os.chown(home, ORDINARY, ORDINARY)
    paths = [str(sources), str(Path(__file__).parents[1])]
    start = f"import sys; sys.path[:0] = {paths!r}; from fakes.escapes import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", start, level, str(home), uid, interpreter],
        capture_output=True,
        text=True,
        cwd="/",
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def results() -> Iterator[Results]:
    """Results of (level, who), each run once."""
    cache: dict[tuple[str, str], dict[str, str]] = {}
    folder = Path(tempfile.mkdtemp(prefix="deerflow-escape-"))
    folder.chmod(0o755)

    def get(level: str, who: str) -> dict[str, str]:
        if (level, who) not in cache:
            place = folder / f"{level}-{who}"
            place.mkdir()
            cache[level, who] = _run(level, who, place)
        return cache[level, who]

    yield get
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("who", ["root", "ordinary"])
@pytest.mark.parametrize("level", ISOLATED)
@pytest.mark.parametrize("name", ATTEMPTS)
def test_attempt_is_blocked(name: str, level: str, who: str, results: Results) -> None:
    if who == "root" and os.geteuid() != 0:
        pytest.skip("needs root")
    found = results(level, who)
    if "unavailable" in found:
        skip_where_not_offered(SandboxUnavailableError(found["unavailable"]))
    assert found[name] == BLOCKED


@pytest.mark.parametrize("name", LEAKS_ON_HOST)
def test_attempt_succeeds_where_nothing_is_isolated(name: str, results: Results) -> None:
    assert results("host", "self")[name] != BLOCKED
