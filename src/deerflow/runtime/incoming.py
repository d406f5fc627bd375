"""A file on its way into a thread's uploads: nameless on the disk until it is whole."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Generator
from pathlib import Path
from typing import Self

from deerflow.errors import StorageError
from deerflow.sandbox.owner import keeper_of

_CHUNK = 1 << 20
_MOST = 10_000
"""Numbers that are tried behind a taken name."""


class Incoming:
    """Bytes that arrive. Blocking: call it from a thread.

    The file has no name until it is placed, so that whatever happens before leaves nothing; where
    the file system has no nameless files it has a random one.

    Args:
        folder: on the file system of the thread's files; made when it is missing.

    Raises:
        StorageError: the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self.size = 0
        self._named: Path | None = None
        with stored():
            folder.mkdir(parents=True, exist_ok=True)
            self._fd = self._open(folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, data: bytes) -> None:
        """Add bytes. Raises StorageError."""
        view = memoryview(data)
        with stored():
            while view:
                view = view[os.write(self._fd, view) :]
        self.size += len(data)

    def place(self, directory: int, name: str) -> str:
        """Give it a name in an open folder: one that is new, or holds the same bytes already.

        Args:
            directory: descriptor of the folder; whom it belongs to gets the file.
            name: a safe name.

        Returns:
            The name that it has got.

        Raises:
            StorageError: the folder cannot be written.
        """
        stem, dot, suffix = name.rpartition(".")
        if not stem:
            stem, dot, suffix = name, "", ""
        with stored():
            os.fchmod(self._fd, 0o644)
            keeper = keeper_of(directory)
            if keeper is not None:
                with contextlib.suppress(PermissionError):  # root without the right to give away
                    os.fchown(self._fd, *keeper)
            source = self._named or f"/proc/self/fd/{self._fd}"
            for number in range(1, _MOST):
                candidate = name if number == 1 else f"{stem}-{number}{dot}{suffix}"
                try:
                    os.link(source, candidate, dst_dir_fd=directory)
                except FileExistsError:
                    if not self._same(directory, candidate):
                        continue
                return candidate
        raise StorageError("There are too many uploads of this name.", cure="Rename the file.")

    def close(self) -> None:
        """Let go of it: what was not placed is gone."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if self._named is not None:
            self._named.unlink(missing_ok=True)

    def _open(self, folder: Path) -> int:
        if Path("/proc/self/fd").is_dir():
            with contextlib.suppress(OSError):
                return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        self._named = folder / f".upload-{secrets.token_hex(8)}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(self._named, flags, 0o600)

    def _same(self, directory: int, name: str) -> bool:
        """Whether a file of the folder holds these bytes; links and pipes never do."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            other = os.open(name, flags, dir_fd=directory)
        except OSError:
            return False
        try:
            facts = os.fstat(other)
            if not stat.S_ISREG(facts.st_mode) or facts.st_size != self.size:
                return False
            offsets = range(0, self.size, _CHUNK)
            return all(
                os.pread(other, _CHUNK, at) == os.pread(self._fd, _CHUNK, at) for at in offsets
            )
        finally:
            os.close(other)


@contextlib.contextmanager
def open_folder(folder: Path) -> Generator[int, None, None]:
    """Descriptor of a folder, made when it is missing; a link in its place is refused. Blocking.

    Raises:
        StorageError: it cannot be made or opened.
    """
    with stored():
        folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(folder, flags)
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def stored() -> Generator[None, None, None]:
    """Turn an OSError of the block into a StorageError that names no path of the host."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"The file could not be stored ({error.strerror}).",
            cure="Free space or choose another DEER_FLOW_HOME.",
        ) from error
