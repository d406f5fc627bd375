"""Who runs a run: a process, told apart from a later one with the same number."""

from __future__ import annotations

import os
from pathlib import Path


def owner_of(pid: int) -> str:
    """`pid:starttime:bootid` of a process of this machine, "" when it does not exist.

    starttime is field 22 of /proc/<pid>/stat (clock ticks since boot, proc(5)); without /proc it
    is 0.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return f"{pid}:0:-" if _exists(pid) else ""
    state, *fields = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else f"{pid}:{fields[18]}:{boot}"


def this_owner() -> str:
    """The owner string of this process."""
    return owner_of(os.getpid())


def is_alive(owner: str) -> bool:
    """Whether the process that wrote `owner` still runs; False for a run of before a reboot."""
    pid = owner.partition(":")[0]
    return pid.isdigit() and owner_of(int(pid)) == owner


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
