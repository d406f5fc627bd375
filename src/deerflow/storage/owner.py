"""Who runs a run: a process, told apart from a later one with the same number."""

from __future__ import annotations

import os
from pathlib import Path

WORKER = "w-"
"""Begins a worker's id, which lives as long as its lease; a process's begins with a digit."""


def owner_of(pid: int) -> str:
    """`pid:starttime:place` of a process of this machine, "" when it does not exist.

    starttime is field 22 of /proc/<pid>/stat (clock ticks since boot, proc(5)); without /proc it
    is 0. place = boot id and namespace of pids (pid_namespaces(7)): the number means nothing in
    another container.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        place = f"{boot}.{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return f"{pid}:0:-" if _exists(pid) else ""
    state, *fields = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else f"{pid}:{fields[18]}:{place}"


def this_owner() -> str:
    """The owner string of this process."""
    return owner_of(os.getpid())


def is_alive(owner: str) -> bool:
    """Whether the process that wrote `owner` still runs; False for a run of before a reboot."""
    pid = owner.partition(":")[0]
    return pid.isdigit() and owner_of(int(pid)) == owner


def is_gone(owner: str) -> bool:
    """Whether it was a process of this very place and has ended."""
    place = this_owner().rpartition(":")[2]
    return owner.rpartition(":")[2] == place and not is_alive(owner)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
