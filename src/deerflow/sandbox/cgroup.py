"""Control groups, one per sandbox: version 2 where it is delegated, else version 1, else none."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from deerflow.sandbox.limits import MIB, Limits

PREFIX: Final = "deerflow-"
_ROOT: Final = Path("/sys/fs/cgroup")
_TRIES: Final = 100


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """Where groups can be made.

    Attributes:
        version: "v2", "v1" or "none".
        memory: parent folder for the memory limit, None when there is none.
        pids: parent folder for the process limit (the same on version 2).
        reason: why there is none, else "".
    """

    version: Literal["v2", "v1", "none"] = "none"
    memory: Path | None = None
    pids: Path | None = None
    reason: str = ""

    @property
    def parents(self) -> tuple[Path, ...]:
        """Distinct parent folders."""
        return tuple(dict.fromkeys(p for p in (self.memory, self.pids) if p is not None))


def discover(root: Path = _ROOT, own: Path = Path("/proc/self/cgroup")) -> Hierarchies:
    """Find where this process may make groups. Blocking; makes and removes one to be sure."""
    try:
        lines = own.read_text(encoding="ascii").splitlines()
    except OSError:
        return Hierarchies(reason="no control groups are mounted")
    places = [line.split(":", 2)[1:] for line in lines if line.count(":") >= 2]
    second = _second(root, places)
    if second.version != "none":
        return second
    memory = _first(root, places, "memory", "memory.limit_in_bytes")
    pids = _first(root, places, "pids", "pids.max")
    if memory is None and pids is None:
        return Hierarchies(reason=second.reason or "control groups may not be written")
    return Hierarchies("v1", memory, pids)


def _second(root: Path, places: list[list[str]]) -> Hierarchies:
    path = next((path for names, path in places if names == ""), None)
    base = root / path.lstrip("/") if path is not None else root
    try:
        offered = (base / "cgroup.controllers").read_text(encoding="ascii").split()
    except OSError:
        return Hierarchies()
    if not {"memory", "pids"} <= set(offered):
        return Hierarchies(reason="memory and pids are not delegated to this process's cgroup")
    try:
        if not _works(base, "memory.max"):
            _delegate(base)
    except OSError:
        pass
    if _works(base, "memory.max"):
        return Hierarchies("v2", base, base)
    return Hierarchies(
        reason="the cgroup holds other processes or may not be written "
        "(systemd-run --user --scope -p Delegate=yes gives an own one)"
    )


def _delegate(base: Path) -> None:
    """Move this process into a leaf, since a group with processes cannot hand controllers down."""
    leaf = base / f"{PREFIX}server"
    with contextlib.suppress(FileExistsError):
        leaf.mkdir()
    (leaf / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    (base / "cgroup.subtree_control").write_text("+memory +pids", encoding="ascii")


def _first(root: Path, places: list[list[str]], name: str, probe: str) -> Path | None:
    path = next((path for names, path in places if name in names.split(",")), None)
    if path is None:
        return None
    for base in (root / name / path.lstrip("/"), root / name):  # the second inside containers
        if _works(base, probe):
            return base
    return None


def _works(base: Path, probe: str) -> bool:
    trial = base / f"{PREFIX}probe-{os.getpid()}"
    try:
        trial.mkdir()
    except OSError:
        return False
    try:
        return os.access(trial / probe, os.W_OK)
    finally:
        trial.rmdir()


class Group:
    """The control group of one sandbox. Every method blocks.

    Args:
        where: parents.
        name: unique on this machine, begins with PREFIX.
    """

    def __init__(self, where: Hierarchies, name: str) -> None:
        self._version = where.version
        self._memory = where.memory / name if where.memory is not None else None
        self._pids = where.pids / name if where.pids is not None else None
        self._folders = [parent / name for parent in where.parents]
        self._seen = (0, 0)

    @property
    def bounds_memory(self) -> bool:
        """Whether memory is bounded here."""
        return self._memory is not None

    @property
    def entries(self) -> list[str]:
        """Files that a process writes "0" to, to join."""
        return [str(folder / "cgroup.procs") for folder in self._folders]

    def make(self, limits: Limits) -> None:
        """Make it, empty, with its limits; what a crashed predecessor left is removed first.

        Raises:
            OSError: no right to, or the name is in use.
        """
        self.remove()
        for folder in self._folders:
            folder.mkdir()
        size = str(limits.memory_mb * MIB)
        names = ("memory.max",) if self._version == "v2" else ("memory.limit_in_bytes",)
        swap = "memory.swap.max" if self._version == "v2" else "memory.memsw.limit_in_bytes"
        if self._memory is not None:
            for name in names:
                (self._memory / name).write_text(size, encoding="ascii")
            with contextlib.suppress(OSError):  # kernels without swap accounting
                total = "0" if self._version == "v2" else size
                (self._memory / swap).write_text(total, encoding="ascii")
        if self._pids is not None:
            count = str(limits.pids + 16)
            (self._pids / "pids.max").write_text(count, encoding="ascii")

    @property
    def gone(self) -> bool:
        """Whether somebody removed it, as a launcher does that ends."""
        return not all(folder.exists() for folder in self._folders)

    def struck(self) -> str | None:
        """The limit that was hit since the last look: "memory", "pids" or None."""
        kills, refusals = self.kills(), self.refusals()
        before, self._seen = self._seen, (kills, refusals)
        if kills > before[0]:
            return "memory"
        return "pids" if refusals > before[1] else None

    def kills(self) -> int:
        """How often the kernel killed a process of it for memory."""
        name = "memory.events" if self._version == "v2" else "memory.oom_control"
        return _count(self._memory, name, "oom_kill")

    def refusals(self) -> int:
        """How often a fork was refused."""
        return _count(self._pids, "pids.events", "max")

    def remove(self) -> None:
        """Kill what is in it and remove it."""
        for folder in self._folders:
            _remove(folder)


def _count(folder: Path | None, name: str, key: str) -> int:
    if folder is None:
        return 0
    try:
        text = (folder / name).read_text(encoding="ascii")
    except OSError:
        return 0
    pairs = dict(line.split() for line in text.splitlines() if line.count(" ") == 1)
    return int(pairs.get(key, 0))


def _remove(folder: Path) -> None:
    for _ in range(_TRIES):
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            _empty(folder)
            time.sleep(0.005)
        else:
            return


def _empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        for pid in (folder / "cgroup.procs").read_text(encoding="ascii").split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def sweep(where: Hierarchies, prefix: str) -> None:
    """Remove the groups of servers that died, with what still runs in them. Blocking.

    Args:
        where: parents.
        prefix: what their names begin with; the server's pid and a dash follow.
    """
    for parent in where.parents:
        for folder in parent.glob(f"{prefix}*"):
            pid = folder.name[len(prefix) :].partition("-")[0]
            if pid.isdigit() and not Path("/proc", pid).exists():
                _remove(folder)
