"""Processes seen from outside: who descends from whom, and which of them belong to one command."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from typing import Final

MARK: Final = "DEERFLOW_CALL"
"""Variable that every command's processes carry; its value is the number of the call."""

_ROUNDS: Final = 200
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    """One process: its parent, its start (clock ticks since boot), whether it is a zombie."""

    pid: int
    parent: int
    start: int
    zombie: bool


def snapshot() -> dict[int, Process]:
    """All processes that /proc shows."""
    found: dict[int, Process] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                found[int(name)] = _read(int(name))
    return found


def _read(pid: int) -> Process:
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return Process(pid, int(fields[1]), int(fields[19]), fields[0] == b"Z")


def descendants(root: int, every: dict[int, Process] | None = None) -> list[Process]:
    """Everything below a process, parents before children."""
    every = snapshot() if every is None else every
    children: dict[int, list[Process]] = {}
    for process in every.values():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    queue = [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += [process.pid for process in below]
    return found


def threads_of(uid: int) -> int:
    """How many threads a user has now: what RLIMIT_NPROC counts."""
    total = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == uid:
                    total += len(os.listdir(f"/proc/{name}/task"))
    return total


def _mark(pid: int) -> str | None:
    prefix = f"{MARK}=".encode()
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        for entry in file.read().split(b"\0"):
            if entry.startswith(prefix):
                return entry[len(prefix) :].decode("ascii", "replace")
    return None


def _inner_pid(pid: int) -> int:
    """The pid as the process itself sees it."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", "rb") as file:
        for line in file:
            if line.startswith(b"NSpid:"):
                return int(line.split()[-1])
    return pid


@dataclass(frozen=True, slots=True)
class Call:
    """What identifies one command's processes.

    Attributes:
        number: value of MARK in their environment.
        leader: pid of the command's own shell, as seen inside.
        since: seconds since boot when it began; what is older belongs to another command.
    """

    number: str
    leader: int
    since: float


def members(root: int, call: Call) -> list[int]:
    """Pids of one command below `root`: its leader, what is marked, and their younger children.

    A child that left its session or lost its parent still carries the mark; one that cleared its
    environment
    is found as long as its parent lives.
    """
    chosen: set[int] = set()
    since = int(call.since * _TICKS) - 1
    order: list[int] = []
    for process in descendants(root):
        if process.zombie:
            continue
        mark = _mark(process.pid)
        inherited = process.parent in chosen and process.start >= since and mark is None
        if mark == call.number or inherited or _inner_pid(process.pid) == call.leader:
            chosen.add(process.pid)
            order.append(process.pid)
    return order


def end_call(root: int, call: Call) -> None:
    """Stop one command's processes so that none can fork, then kill them."""
    held: set[int] = set()
    for _ in range(_ROUNDS):
        fresh = [pid for pid in members(root, call) if pid not in held]
        if not fresh:
            break
        for pid in fresh:
            _signal(pid, signal.SIGSTOP)
        held.update(fresh)
    for pid in held:
        _signal(pid, signal.SIGKILL)


def end_below(root: int) -> None:
    """Kill everything below a process that adopts orphans, until nothing is left."""
    for _ in range(_ROUNDS):
        alive = [process.pid for process in descendants(root) if not process.zombie]
        for pid in alive:
            _signal(pid, signal.SIGSTOP)
        for pid in alive:
            _signal(pid, signal.SIGKILL)
        _reap()
        if not alive:
            return
        time.sleep(0.002)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
