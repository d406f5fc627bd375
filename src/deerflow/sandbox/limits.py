"""What one sandbox may use, as rlimits, and how much of the disk it does use."""

from __future__ import annotations

import os
import resource
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MIB: Final = 1 << 20
_OPEN_FILES: Final = 4096
_SPARE_PIDS: Final = 16
"""What bubblewrap, its init and the keeper of a few shells need above the configured number."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Numbers of `sandbox.limits`.

    Attributes:
        memory_mb: MiB; of the whole sandbox with a cgroup, else of each process's data.
        pids: processes and threads; of the whole sandbox with a cgroup or an own uid.
        file_mb: MiB of one file.
        disk_mb: MiB of the thread's folders; checked while a command runs, not by the kernel.
        seconds: of one command.
    """

    memory_mb: int = 1024
    pids: int = 256
    file_mb: int = 512
    disk_mb: int = 4096
    seconds: float = 600.0

    @property
    def tmp_mb(self) -> int:
        """MiB of the private /tmp (memory, so a quarter of it, at most 256)."""
        return max(1, min(256, self.memory_mb // 4))


def rlimits(limits: Limits, *, memory: bool, own_uid: bool) -> list[tuple[int, int]]:
    """(number, value) pairs for a sandbox's first process.

    Args:
        limits: the numbers.
        memory: False when a cgroup bounds memory. RLIMIT_DATA is used and not RLIMIT_AS, so that
            runtimes which
            reserve address space (JVM, WebAssembly) start.
        own_uid: the uid belongs to this sandbox alone, so that a count per uid is one per
            sandbox.
    """
    pairs = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, limits.file_mb * MIB),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_MEMLOCK, 64 * 1024),
    ]
    if memory:
        pairs.append((resource.RLIMIT_DATA, limits.memory_mb * MIB))
    if own_uid:
        pairs.append((resource.RLIMIT_NPROC, limits.pids + _SPARE_PIDS))
    return pairs


def usage(root: Path) -> int:
    """Bytes on disk of everything below a folder; links are not followed. Blocking."""
    total = 0
    queue = [str(root)]
    while queue:
        try:
            with os.scandir(queue.pop()) as entries:
                for entry in entries:
                    total += _size(entry, queue)
        except OSError:
            continue  # removed meanwhile, or closed by its owner
    return total


def _size(entry: os.DirEntry[str], queue: list[str]) -> int:
    try:
        info = entry.stat(follow_symlinks=False)
    except OSError:
        return 0
    if stat.S_ISDIR(info.st_mode):
        queue.append(entry.path)
    return info.st_blocks * 512


class DiskMeter:
    """Usage of one thread's folders, walked at most as often as it is cheap.

    Args:
        roots: host folders that count.
        limit: bytes.
        clock: seconds, monotonic.
    """

    def __init__(
        self, roots: Sequence[Path], limit: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._roots = tuple(roots)
        self._clock = clock
        self.limit = limit
        self.used = 0
        self.pause = 0.25
        self._looked = False

    @property
    def room(self) -> int:
        """Bytes left, by the last look."""
        return max(0, self.limit - self.used)

    def look(self) -> bool:
        """Walk the folders; whether they are over the limit and grew since the last look. Blocking.

        A first look has nothing to compare with: what is over already may still be deleted.

        `pause` becomes ten times the walk's duration, at least 0.25 s: the watch costs a tenth
        at most.
        """
        begun = self._clock()
        before = self.used if self._looked else None
        self.used = sum(usage(root) for root in self._roots)
        self._looked = True
        self.pause = max(0.25, 10 * (self._clock() - begun))
        return before is not None and self.used > max(before, self.limit)
