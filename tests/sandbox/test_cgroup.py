"""Where control groups are looked for, and what one does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from deerflow.sandbox.cgroup import PREFIX, Group, Hierarchies, discover, sweep
from deerflow.sandbox.limits import MIB, Limits


@pytest.fixture
def where() -> Hierarchies:
    found = discover()
    if found.version == "none":
        pytest.skip(found.reason)
    return found


def test_no_file_no_groups(tmp_path: Path) -> None:
    found = discover(tmp_path, tmp_path / "none")
    assert (found.version, found.parents) == ("none", ())
    assert found.reason


def test_controllers_that_are_not_delegated(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("0::/session\n", encoding="ascii")
    (tmp_path / "session").mkdir()
    (tmp_path / "session" / "cgroup.controllers").write_text("cpu\n", encoding="ascii")
    found = discover(tmp_path, own)
    assert found.version == "none" and "not delegated" in found.reason


def test_a_group_bounds_and_ends_what_is_in_it(where: Hierarchies) -> None:
    group = Group(where, f"{PREFIX}test-{os.getpid()}")
    group.make(Limits(memory_mb=64, pids=5))
    child = subprocess.Popen(["/bin/sleep", "60"])
    try:
        for path in group.entries:
            Path(path).write_text(str(child.pid), encoding="ascii")
        assert group.struck() is None
        if where.version == "v1" and where.memory is not None:
            limit = where.memory / f"{PREFIX}test-{os.getpid()}" / "memory.limit_in_bytes"
            assert int(limit.read_text(encoding="ascii")) == 64 * MIB
    finally:
        group.remove()
    assert child.wait() == -9
    assert not any(Path(path).exists() for path in group.entries)
    group.remove()


def test_groups_of_dead_servers_are_swept(where: Hierarchies) -> None:
    gone = subprocess.Popen(["/bin/true"])
    gone.wait()
    prefix = f"{PREFIX}sweep{os.getpid()}-"
    dead, alive = (Group(where, f"{prefix}{pid}-1") for pid in (gone.pid, os.getpid()))
    dead.make(Limits())
    alive.make(Limits())
    try:
        sweep(where, prefix)
        assert not Path(dead.entries[0]).exists()
        assert Path(alive.entries[0]).exists()
    finally:
        alive.remove()
