"""Slots of sandboxes on this machine: one file each, held by a lock that ends with its process.

A slot is a uid where the server may change uids, else only a number. A file that is free but not
empty was left by a
process that died: whoever takes it next clears up first.
"""

from __future__ import annotations

import fcntl
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from deerflow.errors import SandboxUnavailableError


@dataclass(slots=True)
class Lease:
    """A slot that is held.

    Attributes:
        slot: the number.
        stale: its last holder died without giving it back.
    """

    slot: int
    stale: bool
    _fd: int

    def settle(self) -> None:
        """Mark it as used by this process."""
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Give it back, clean."""
        os.ftruncate(self._fd, 0)
        os.close(self._fd)


class Leases:
    """Gives out slots. Every method blocks.

    Args:
        folder: where the lock files are; one folder for all servers that share the slots.
        slots: the numbers.
    """

    def __init__(self, folder: Path, slots: range) -> None:
        self._folder = folder
        self._slots = slots

    def take(self, key: str, *, prefer: int | None = None) -> Lease:
        """A free slot: `prefer` if it is one, else the first from a place that the key decides.

        A key finds its own slot again as long as nobody else took it, so its files keep their
        owner.

        Raises:
            SandboxUnavailableError: all are taken.
        """
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for slot in self._order(key, prefer):
            lease = self._try(slot)
            if lease is not None:
                return lease
        raise SandboxUnavailableError(
            f"All {len(self._slots)} sandbox user ids are in use.",
            cure="Widen `sandbox.uid_range` or wait until a run ends.",
        )

    def _order(self, key: str, prefer: int | None) -> Iterator[int]:
        if prefer is not None and prefer in self._slots:
            yield prefer
        first = zlib.crc32(key.encode()) % len(self._slots)
        for step in range(len(self._slots)):
            yield self._slots[(first + step) % len(self._slots)]

    def _try(self, slot: int) -> Lease | None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(self._folder / str(slot), flags, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        return Lease(slot, os.fstat(fd).st_size > 0, fd)

    def sweep(self, clear: Callable[[int], None]) -> None:
        """Clear up after holders that died: `clear(slot)` for each, then the slot is clean."""
        if not self._folder.is_dir():
            return
        for path in self._folder.iterdir():
            if path.name.isdigit() and path.stat().st_size > 0:
                lease = self._try(int(path.name))
                if lease is not None:
                    if lease.stale:
                        clear(lease.slot)
                    lease.release()
