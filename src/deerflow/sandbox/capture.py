"""The output of one command: both ends in memory, the whole in a spill file once it is long."""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from deerflow.sandbox.paths import WORKSPACE

_NO_ROOM: Final = {errno.EFBIG, errno.ENOSPC, errno.EDQUOT}
SPILL_FOLDER: Final = ".tool-results"
KEEP_BYTES: Final = 128 * 1024
"""Bytes of each end that stay in memory: room for 20,000 characters of four bytes."""


@dataclass(slots=True)
class Alias:
    """Pairs of (host, virtual) bytes for sandboxes that see host paths; hides them in a stream.

    Attributes:
        pairs: longest host path first.
    """

    pairs: tuple[tuple[bytes, bytes], ...] = ()
    _rest: bytes = field(default=b"", init=False)

    def feed(self, data: bytes, *, final: bool = False) -> bytes:
        """The data with host paths replaced; a tail that may begin a path waits for more."""
        if not self.pairs:
            return data
        text = self._rest + data
        known = dict(self.pairs)
        out = bytearray()
        at = 0
        for match in re.finditer(b"|".join(map(re.escape, known)), text):
            if not final and self._begins_longer(text[match.start() :], match[0]):
                break
            out += text[at : match.start()] + known[match[0]]
            at = match.end()
        keep = 0 if final else self._undecided(text[at:])
        self._rest = text[len(text) - keep :]
        return bytes(out) + text[at : len(text) - keep]

    def _begins_longer(self, rest: bytes, found: bytes) -> bool:
        return any(len(host) > len(found) and host.startswith(rest) for host, _ in self.pairs)

    def _undecided(self, text: bytes) -> int:
        """Length of the longest tail that is the beginning of a host path."""
        return max(self._overlap(text, host) for host, _ in self.pairs)

    @staticmethod
    def _overlap(text: bytes, host: bytes) -> int:
        for size in range(min(len(host) - 1, len(text)), 0, -1):
            if text.endswith(host[:size]):
                return size
        return 0


class Spill:
    """A file below the workspace's spill folder, opened without following any link.

    Args:
        root: the thread's host folder.
        name: file name.
        owner: who gets it, None to leave it.
        room: bytes that it may take.
    """

    def __init__(self, root: Path, name: str, owner: tuple[int, int] | None, room: int) -> None:
        self._root = root
        self._name = name
        self._owner = owner
        self._room = room
        self._fd = -1
        self._lock = threading.Lock()
        self.virtual = f"{WORKSPACE}/{SPILL_FOLDER}/{name}"
        self.full = False
        self.failed = False

    def write(self, data: bytes) -> None:
        """Append; beyond the room, or on a full disk, `full` is set and data is dropped."""
        with self._lock:
            if self.full or self.failed:
                return
            try:
                self._append(data)
            except OSError as error:
                self.full = error.errno in _NO_ROOM
                self.failed = not self.full

    def _append(self, data: bytes) -> None:
        if self._fd < 0:
            self._fd = self._open()
        view = memoryview(data)[: self._room]
        while view:
            written = os.write(self._fd, view)
            self._room -= written
            view = view[written:]
        self.full = self._room <= 0

    def close(self) -> None:
        """Close the file if it was opened."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> int:
        step = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        folders = [os.open(self._root, step)]
        try:
            folders.append(os.open("workspace", step, dir_fd=folders[-1]))
            with contextlib.suppress(FileExistsError):
                os.mkdir(SPILL_FOLDER, 0o755, dir_fd=folders[-1])
                self._give(SPILL_FOLDER, folders[-1])
            folders.append(os.open(SPILL_FOLDER, step, dir_fd=folders[-1]))
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(self._name, flags, 0o644, dir_fd=folders[-1])
            if self._owner is not None:
                os.fchown(fd, *self._owner)
            return fd
        finally:
            for folder in folders:
                os.close(folder)

    def _give(self, name: str, folder: int) -> None:
        if self._owner is not None:
            os.chown(name, *self._owner, dir_fd=folder, follow_symlinks=False)


class Capture:
    """Collects what a command prints. Fed by one thread at a time.

    Args:
        spill: where the whole goes once it is longer than KEEP_BYTES.
        alias: host paths to hide.
    """

    def __init__(self, spill: Spill, alias: Alias) -> None:
        self.spill = spill
        self.total = 0
        self._alias = alias
        self._head = bytearray()
        self._tail = bytearray()
        self._spilling = False

    @property
    def long(self) -> bool:
        """Whether it has outgrown memory, so that a thread should feed it."""
        return self._spilling

    def feed(self, data: bytes) -> None:
        """Take bytes as they came."""
        self.total += len(data)
        self._keep(self._alias.feed(data))

    def feed_late(self, data: bytes) -> None:
        """Take bytes that came after the command returned: to the spill file alone."""
        self.spill.write(self._alias.feed(data))

    def finish(self) -> None:
        """No more bytes belong to the result."""
        self._keep(self._alias.feed(b"", final=True))

    def _keep(self, data: bytes) -> None:
        if not data:
            return
        if not self._spilling and len(self._head) + len(data) <= KEEP_BYTES:
            self._head += data
            return
        if not self._spilling:
            self._spilling = True
            self.spill.write(bytes(self._head))
        self.spill.write(data)
        self._tail += data
        if len(self._tail) > 2 * KEEP_BYTES:
            del self._tail[:-KEEP_BYTES]

    def text(self, limit: int) -> tuple[str, bool]:
        """The output as text of at most `limit` characters, and whether it was cut.

        Blocking when it was cut: the whole is then written to the spill file.
        """
        if not self._spilling:
            text = readable(bytes(self._head))
            if len(text) <= limit:
                return text, False
            self.spill.write(bytes(self._head))
        where = "not kept" if self.spill.failed else f"in {self.spill.virtual}"
        if self.spill.full:
            where += ", up to the disk limit"
        note = f"\n[... {self.total:,} bytes, the middle is left out; the whole is {where} ...]\n"
        half = max(0, limit - len(note)) // 2
        head = readable(bytes(self._head), cut_end=True)[:half]
        tail = readable(bytes(self._head + self._tail)[-KEEP_BYTES:], cut_start=True)
        return head + note + (tail[-half:] if half else ""), True


def readable(data: bytes, *, cut_start: bool = False, cut_end: bool = False) -> str:
    r"""Bytes as text: UTF-8, anything else as \\xNN; a character cut at an end is left out."""
    if cut_start:
        start = 0
        while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
            start += 1
        data = data[start:]
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    return decoder.decode(data, final=not cut_end).replace("\0", "\\x00")
