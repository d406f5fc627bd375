"""Limits as rlimits, and the disk meter."""

from __future__ import annotations

import itertools
import os
import resource
from pathlib import Path

from deerflow.sandbox.limits import MIB, DiskMeter, Limits, rlimits, usage


def test_rlimits() -> None:
    limits = Limits(memory_mb=100, pids=10, file_mb=5)
    plain = dict(rlimits(limits, memory=True, own_uid=False))
    assert plain[resource.RLIMIT_DATA] == 100 * MIB
    assert plain[resource.RLIMIT_FSIZE] == 5 * MIB
    assert plain[resource.RLIMIT_CORE] == 0
    assert resource.RLIMIT_NPROC not in plain and resource.RLIMIT_AS not in plain
    bounded = dict(rlimits(limits, memory=False, own_uid=True))
    assert resource.RLIMIT_DATA not in bounded
    assert bounded[resource.RLIMIT_NPROC] >= 10


def test_usage_counts_blocks_and_follows_no_link(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    for folder in (inside / "deep", outside):
        folder.mkdir(parents=True)
    (outside / "big").write_bytes(b"x" * MIB)
    os.symlink(outside, inside / "link")
    before = usage(inside)
    (inside / "deep" / "f").write_bytes(b"x" * MIB)
    with open(inside / "holes", "wb") as file:
        file.truncate(1 << 40)
    assert MIB <= usage(inside) - before < 2 * MIB
    assert usage(tmp_path / "none") == 0


def test_meter(tmp_path: Path) -> None:
    clock = itertools.count()
    meter = DiskMeter((tmp_path,), 2 * MIB, clock=lambda: float(next(clock)))
    assert meter.room == 2 * MIB
    (tmp_path / "f").write_bytes(b"x" * MIB)
    assert not meter.look()
    assert 0 < meter.room <= MIB
    (tmp_path / "g").write_bytes(b"x" * 2 * MIB)
    assert meter.look() and meter.room == 0
    assert not meter.look()  # over, but no larger
    assert meter.pause == 10.0  # a walk of one second is repeated after ten
