"""The file side of a sandbox on the host: reads and atomic writes that cannot leave the tree."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import stat
import threading
from pathlib import Path

from deerflow.errors import ConflictError, PathError, SandboxError
from deerflow.sandbox.openat import READ, Opener, Spot, translated
from deerflow.sandbox.paths import Place, show_path
from deerflow.sandbox.protocol import FileInfo, GrepHit, ThreadFolders
from deerflow.sandbox.walk import TEMPORARY, Walk, kind_of

MAX_READ = 256 << 20
"""Bytes that one read returns; larger files are read in slices."""
_CHUNK = 1 << 20


class FileTree:
    """File methods of `sandbox.protocol.Sandbox` for sandboxes whose files lie on this host.

    Relative paths start in the workspace. Every method works in a thread: the loop never waits
    for a disk.

    Args:
        folders: host folders of the thread; made when first written to.
        owner: (uid, gid) that gets what is written here, None to leave it to the process.
        max_bytes: size of one file, None for no limit.
    """

    def __init__(
        self,
        folders: ThreadFolders,
        owner: tuple[int, int] | None = None,
        *,
        max_bytes: int | None = None,
    ) -> None:
        self._opener = Opener(folders, owner)
        self._paths = self._opener.paths
        self._walk = Walk(self._opener)
        self._max_bytes = max_bytes
        self._writing = threading.Lock()

    async def prepare(self) -> None:
        """Make the writable folders, owned by the sandbox's user."""
        await asyncio.to_thread(self._prepare)

    async def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Bytes of a file.

        Raises:
            PathError: outside, a link that leaves, missing, not a regular file, or larger than
                256 MiB without `length`.
        """
        return await asyncio.to_thread(self._read, path, offset, length)

    async def write(self, path: str, data: bytes, *, expect_sha256: str | None = None) -> FileInfo:
        """Replace a file atomically, making its folders; the mode of an existing file is kept.

        Raises:
            PathError: outside the writable tree, or not a regular file.
            ConflictError: the file is not the `expect_sha256` version.
            SandboxError: disk or file limit.
        """
        return await asyncio.to_thread(self._write, path, data, expect_sha256)

    async def stat(self, path: str, *, digest: bool = False) -> FileInfo | None:
        """Facts of one path (links followed), None when it does not exist.

        Raises:
            PathError: outside, or a link that leaves.
        """
        return await asyncio.to_thread(self._stat, path, digest)

    async def listdir(self, path: str, *, depth: int = 1, limit: int = 1000) -> list[FileInfo]:
        """Entries below a directory, sorted by path; links are listed, not followed.

        Raises:
            PathError: outside, missing, not a directory.
        """
        return await asyncio.to_thread(self._walk.listdir, path, depth, limit)

    async def glob(self, pattern: str, *, path: str = "", limit: int = 500) -> list[str]:
        """Files and links that match a glob, newest first.

        Raises:
            PathError: outside.
            ToolError: more than 100,000 entries or 10 seconds.
        """
        return await asyncio.to_thread(self._walk.glob, pattern, path, limit)

    async def grep(
        self, pattern: str, *, path: str = "", include: str = "", limit: int = 200
    ) -> list[GrepHit]:
        """Lines of text files that match a regular expression.

        Raises:
            PathError: outside or missing.
            ToolError: a bad pattern, more than 100,000 entries or 10 seconds.
        """
        return await asyncio.to_thread(self._walk.grep, pattern, path, include, limit)

    # the rest runs in a thread

    def _prepare(self) -> None:
        for mount in self._paths.mounts:
            if mount.writable:
                with translated(mount.virtual):
                    self._opener.ensure(mount)

    def _read(self, path: str, offset: int, length: int | None) -> bytes:
        place = self._paths.resolve(path)
        with translated(place.virtual), self._opener.opened(place) as fd:
            size = os.fstat(fd).st_size
            if length is None and size - offset > MAX_READ:
                raise PathError(
                    f"{show_path(place.virtual)} has {size:,} bytes, too many to read at once.",
                    cure="Read a part of it, or work on it with bash.",
                )
            return _read_at(fd, offset, MAX_READ if length is None else min(length, MAX_READ))

    def _stat(self, path: str, digest: bool) -> FileInfo | None:
        place = self._paths.resolve(path)
        if place.mount is None:
            return FileInfo(place.virtual, "dir", 0, 0.0)
        with translated(place.virtual):
            try:
                with self._opener.spot(place) as spot:
                    info = os.stat(spot.name, dir_fd=spot.directory, follow_symlinks=False)
                regular = stat.S_ISREG(info.st_mode)
                sha256 = self._digest(place) if digest and regular else None
            except (FileNotFoundError, NotADirectoryError):
                empty = place.mount.writable and not place.parts
                return FileInfo(place.virtual, "dir", 0, 0.0) if empty else None
        return FileInfo(place.virtual, kind_of(info.st_mode), info.st_size, info.st_mtime, sha256)

    def _digest(self, place: Place) -> str:
        with self._opener.opened(place) as fd:
            return _digest_of(fd)

    def _write(self, path: str, data: bytes, expect_sha256: str | None) -> FileInfo:
        place = self._paths.resolve(path)
        if self._max_bytes is not None and len(data) > self._max_bytes:
            raise SandboxError(
                f"{show_path(place.virtual)} would have {len(data):,} bytes, "
                f"{self._max_bytes:,} are allowed.",
                cure="Split it into several files.",
            )
        with translated(place.virtual), self._opener.spot(place, make=True) as spot, self._writing:
            mode = self._replaceable(spot, place.virtual, expect_sha256)
            info = self._replace(spot, data, mode)
        sha256 = hashlib.sha256(data).hexdigest()
        return FileInfo(place.virtual, "file", info.st_size, info.st_mtime, sha256)

    def _replaceable(self, spot: Spot, virtual: str, expect_sha256: str | None) -> int | None:
        """Mode of the file that stands there, None when there is none."""
        try:
            mode = os.stat(spot.name, dir_fd=spot.directory, follow_symlinks=False).st_mode
        except FileNotFoundError:
            mode = None
        if mode is not None and not stat.S_ISREG(mode):
            what = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
            raise PathError(f"{show_path(virtual)} is {what}.", cure="Name another file.")
        if expect_sha256 is not None:
            now = None
            if mode is not None:
                fd = os.open(spot.name, READ, dir_fd=spot.directory)
                try:
                    now = _digest_of(fd)
                finally:
                    os.close(fd)
            if now != expect_sha256:
                raise ConflictError(
                    f"{show_path(virtual)} has changed since it was read.",
                    cure="Read it again, then repeat the change.",
                )
        return None if mode is None else stat.S_IMODE(mode) & 0o777

    def _replace(self, spot: Spot, data: bytes, mode: int | None) -> os.stat_result:
        temporary = f"{TEMPORARY}{secrets.token_hex(8)}"
        fd, named = _temporary(spot.directory, temporary)
        try:
            try:
                _write_all(fd, data)
                os.fchmod(fd, 0o644 if mode is None else mode)
                self._opener.give(fd)
                if not named:
                    os.link(f"/proc/self/fd/{fd}", temporary, dst_dir_fd=spot.directory)
                info = os.fstat(fd)
            finally:
                os.close(fd)
            os.rename(temporary, spot.name, src_dir_fd=spot.directory, dst_dir_fd=spot.directory)
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=spot.directory)
            raise
        return info


def _temporary(directory: int, name: str) -> tuple[int, bool]:
    """A new file in an open directory; nameless where possible: a kill leaves nothing behind."""
    if Path("/proc/self/fd").is_dir():
        with contextlib.suppress(OSError):
            return os.open(
                ".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=directory
            ), False
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(name, flags, 0o600, dir_fd=directory), True


def _read_at(fd: int, offset: int, length: int) -> bytes:
    parts: list[bytes] = []
    while length > 0 and (part := os.pread(fd, min(length, _CHUNK), offset)):
        parts.append(part)
        offset += len(part)
        length -= len(part)
    return b"".join(parts)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _digest_of(fd: int) -> str:
    digest = hashlib.sha256()
    offset = 0
    while part := os.pread(fd, _CHUNK, offset):
        digest.update(part)
        offset += len(part)
    return digest.hexdigest()
