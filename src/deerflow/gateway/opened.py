"""Files of a thread, opened for serving: no link leads outside, and their hash is known."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import IO

from deerflow.errors import NotFoundError, PathError, UsageError
from deerflow.sandbox.openat import Opener
from deerflow.sandbox.paths import Place, VirtualPaths, show_path
from deerflow.sandbox.protocol import ThreadFolders

WHOLE = 1 << 20
"""Bytes up to which a file is read at once: hash and answer are then of the same bytes."""
MEMBER = 4 << 20
"""Bytes of a member of a .skill file."""
ENTRIES = 2_000
"""Members of a .skill file."""
ARCHIVE = 64 << 20
"""Bytes of a .skill file that is looked into."""
HEAD = 4096
_CHUNK = 256 * 1024
_KEPT = 1_000
_SETTLED = 2.0
"""Seconds after a change from which on the time of change tells one version from the next."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

Stamp = tuple[int, int, int, int, int]


@dataclass(slots=True)
class Opened:
    """A file, open.

    Attributes:
        name: last part of its path.
        size: bytes.
        sha256: hex digest.
        head: its first bytes.
        data: all of it when it is small, else None.
        fd: its descriptor when it is not, else -1; `close` gives it back.
    """

    name: str
    size: int
    sha256: str
    head: bytes
    data: bytes | None = None
    fd: int = -1

    async def read(self, part: range) -> AsyncGenerator[bytes]:
        """The bytes of a range, piece by piece."""
        if self.data is not None:
            yield self.data[part.start : part.stop]
            return
        for start in range(part.start, part.stop, _CHUNK):
            length = min(_CHUNK, part.stop - start)
            piece = await asyncio.to_thread(os.pread, self.fd, length, start)
            if not piece:  # cut meanwhile: the client sees that bytes are missing
                return
            yield piece

    def close(self) -> None:
        """Let go of it."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Files:
    """Opens files; digests of large ones are remembered as long as they do not change."""

    def __init__(self) -> None:
        self._digests: OrderedDict[Stamp, str] = OrderedDict()

    async def open(self, folders: ThreadFolders, path: str) -> Opened:
        """A file by its virtual path, or a member of a .skill file by the path into it.

        Raises:
            NotFoundError: no such file, or none that can be served.
            UsageError: the .skill file is damaged or too large.
        """
        return await asyncio.to_thread(self._open, folders, path)

    def _open(self, folders: ThreadFolders, path: str) -> Opened:
        try:
            place = VirtualPaths(folders).resolve(path)
            index = next((i for i, n in enumerate(place.parts[:-1]) if _is_skill(n)), -1)
            if index >= 0:
                member = _member(folders, place, index)
                if member is not None:
                    return member
            with Opener(folders).opened(place) as fd:
                return self._opened(fd, place.parts[-1])
        except PathError as error:
            raise NotFoundError(error.message, cure=error.cure) from None
        except OSError:
            raise _nothing(path) from None

    def _opened(self, fd: int, name: str) -> Opened:
        facts = os.fstat(fd)
        if facts.st_size <= WHOLE:
            data = os.pread(fd, WHOLE + 1, 0)
            digest = hashlib.sha256(data).hexdigest()
            return Opened(name, len(data), digest, data[:HEAD], data)
        digest = self._digest(fd, facts)
        head = os.pread(fd, HEAD, 0)
        return Opened(name, facts.st_size, digest, head, fd=os.dup(fd))

    def _digest(self, fd: int, facts: os.stat_result) -> str:
        stamp = _stamp(facts)
        known = self._digests.get(stamp)
        if known is not None:
            return known
        digest, offset = hashlib.sha256(), 0
        while part := os.pread(fd, 1 << 20, offset):
            digest.update(part)
            offset += len(part)
        settled = time.time() - max(facts.st_mtime, facts.st_ctime) > _SETTLED
        if settled and _stamp(os.fstat(fd)) == stamp:
            self._digests[stamp] = digest.hexdigest()
            while len(self._digests) > _KEPT:
                self._digests.popitem(last=False)
        return digest.hexdigest()


def _stamp(facts: os.stat_result) -> Stamp:
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def _is_skill(name: str) -> bool:
    return name.lower().endswith(".skill")


def _nothing(path: str) -> NotFoundError:
    return NotFoundError(f"There is no file {show_path(path)}.")


def _member(folders: ThreadFolders, place: Place, index: int) -> Opened | None:
    """A member of the archive that is the part of this index; None when that is a folder."""
    names = place.parts
    above = place.virtual.removesuffix("/" + "/".join(names[index + 1 :]))
    archive = Place(above, place.mount, names[: index + 1])
    inside = "/".join(names[index + 1 :])
    try:
        with Opener(folders).opened(archive) as fd, os.fdopen(os.dup(fd), "rb") as file:
            data = _unpacked(file, inside)
    except IsADirectoryError:
        return None
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError):
        raise UsageError(f"{show_path(archive.virtual)} is damaged.") from None
    if data is None:
        raise _nothing(place.virtual)
    return Opened(names[-1], len(data), hashlib.sha256(data).hexdigest(), data[:HEAD], data)


def _unpacked(file: IO[bytes], name: str) -> bytes | None:
    """A member by its path, with or without the one folder that the archive may consist of.

    Raises:
        UsageError: archive or member is larger than is looked into, or locked.
    """
    if os.fstat(file.fileno()).st_size > ARCHIVE:
        raise UsageError(f"A .skill file of more than {ARCHIVE >> 20} MiB is not looked into.")
    with zipfile.ZipFile(file) as archive:
        infos = archive.infolist()
        if len(infos) > ENTRIES:
            raise UsageError(f"A .skill file of more than {ENTRIES:,} members is not looked into.")
        tops = {info.filename.partition("/")[0] for info in infos}
        wanted = [name, f"{tops.pop()}/{name}"] if len(tops) == 1 else [name]
        found = next((info for info in infos if info.filename in wanted), None)
        if found is None or found.is_dir():
            return None
        if found.flag_bits & 0x1 or found.compress_type not in _METHODS:
            raise UsageError("The member is encrypted, or packed in an unusual way.")
        with archive.open(found) as member:
            data = member.read(MEMBER + 1)
    if len(data) > MEMBER:
        raise UsageError(f"Members of more than {MEMBER >> 20} MiB are not shown.")
    return data
