"""The pipes that commands print into: named, made on the host, opened by the shell for writing."""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True)
class OutputPipe:
    """The reading end, not blocking, and the name that the shell opens.

    The server holds a writing end itself while a command runs: without it the reading end would
    report an end
    before the first writer came.
    """

    name: str
    fd: int
    _hold: int = -1

    def hold(self, folder: Path) -> None:
        """Open the own writing end."""
        self._hold = os.open(folder / self.name, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def let_go(self) -> None:
        """Close it: from now on the end shows when nobody else writes."""
        if self._hold >= 0:
            os.close(self._hold)
            self._hold = -1


class OutputPipes:
    """Pipes of one sandbox; one whose writers are all gone is used again.

    Args:
        folder: host folder; the sandbox may not write to it.
        owner: who may open them, None for the server's own user.
    """

    def __init__(self, folder: Path, owner: tuple[int, int] | None) -> None:
        self._folder = folder
        self._owner = owner
        self._free: list[OutputPipe] = []
        self._count = 0

    async def take(self) -> OutputPipe:
        """A pipe without writers but ours.

        Raises:
            OSError: the folder is gone or the disk is full.
        """
        if self._free:
            pipe = self._free.pop()
        else:
            self._count += 1
            pipe = await asyncio.to_thread(self._make, f"out-{self._count}")
        pipe.hold(self._folder)
        return pipe

    def prepare(self) -> None:
        """Make the first one. Blocking."""
        self._count += 1
        self._free.append(self._make(f"out-{self._count}"))

    def give_back(self, pipe: OutputPipe) -> None:
        """Take back one whose end was read."""
        self._free.append(pipe)

    def retire(self, pipe: OutputPipe, *, close: bool) -> None:
        """Forget the name; what still holds the pipe goes on writing."""
        pipe.let_go()
        if close:
            os.close(pipe.fd)
        asyncio.get_running_loop().run_in_executor(None, self._forget, pipe)

    def close(self) -> None:
        """Close the free ones. Blocking."""
        while self._free:
            pipe = self._free.pop()
            pipe.let_go()
            os.close(pipe.fd)
            self._forget(pipe)

    def _forget(self, pipe: OutputPipe) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._folder / pipe.name)

    def _make(self, name: str) -> OutputPipe:
        path = self._folder / name
        os.mkfifo(path, 0o600)
        if self._owner is not None:
            os.chown(path, *self._owner, follow_symlinks=False)
        return OutputPipe(name, os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
