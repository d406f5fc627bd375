"""Folders of users on the disk: names, locks across processes, files whole or not there."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import random
import secrets
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from deerflow.errors import StorageError

FILE = "memory.json"
MAX_NAME_BYTES = 100
"""Longer names become a digest; file systems allow 255 bytes, archives and eCryptfs fewer."""

LOCK_SECONDS = 30.0
"""Then a writer gives up on a process that holds the lock and does not go on."""

SETTLED_SECONDS = 0.1
"""Age from which a file's times tell whether it changes again: the clock of a file system ticks
every few milliseconds only."""

Stamp = tuple[int, int, int, int]
"""Changes with a file: modified, changed (ns), size, inode."""

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")
_SHARDS = 256


def safe_user_id(user_id: str) -> str:
    """Name of a user's folder: two users never share one, also where case makes no difference.

    Lower-case letters, digits, - and _ stay, every other byte is %xx. A name of more than
    MAX_NAME_BYTES is a SHA-256; ~ tells it from all others.
    """
    data = user_id.encode("utf-8", "surrogatepass")
    name = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02x}" for byte in data)
    if len(name) > MAX_NAME_BYTES:
        return f"sha256~{hashlib.sha256(data).hexdigest()}"
    return name or "~"


def stamp_of(file: str) -> Stamp | None:
    """The stamp of a file, None when there is none; quick enough for a loop.

    Raises:
        OSError: it cannot be looked at.
    """
    try:
        facts = os.stat(file)
    except FileNotFoundError:
        return None
    return facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino


def is_settled(stamp: Stamp | None, age: float = SETTLED_SECONDS) -> bool:
    """Whether any further change of the file would change its stamp: it is `age` seconds old."""
    return stamp is None or max(stamp[:2]) < (time.time() - age) * 1e9


class UserFolder:
    """The files of one user below a folder of memories. Blocks: for threads, not for a loop.

    Writers hold `locked`; readers need not, since files are replaced whole.
    """

    def __init__(self, root: Path, user_id: str) -> None:
        name = safe_user_id(user_id)
        self._root = root
        self._shard = hashlib.sha256(name.encode()).digest()[0] % _SHARDS
        self.path = root / "users" / name
        self.file = self.path / FILE
        self._revisions = self.path / "revisions"

    @property
    def name(self) -> str:
        """The file as messages name it: without the path of the machine."""
        return f"{self._root.name}/users/{self.path.name}/{FILE}"

    @contextmanager
    def locked(self) -> Generator[None]:
        """Keep every other writer of this user out, in this process and in others.

        Locks are few files that are never removed, so nobody locks a file that is gone. Who waits
        holds the turnstile: a process that writes in a loop cannot overtake it again and again.

        Raises:
            StorageError: another process has held it for LOCK_SECONDS.
        """
        folder = self._root / "locks"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        deadline = time.monotonic() + LOCK_SECONDS
        with contextlib.ExitStack() as stack:
            turnstile, lock = (
                stack.enter_context((folder / f"{self._shard:02x}{suffix}").open("ab"))
                for suffix in (".next", "")
            )
            _lock(turnstile.fileno(), deadline)
            _lock(lock.fileno(), deadline)
            fcntl.flock(turnstile, fcntl.LOCK_UN)
            yield

    def read(self) -> bytes | None:
        """The file, None when there is none."""
        return _read(self.file)

    def write(self, data: bytes) -> None:
        """Replace the file; durable when it returns."""
        self._make(self.path)
        _replace(self.file, data)

    def set_aside(self) -> str:
        """Keep the file, as it is, under another name as well; gives that name."""
        name = f"{FILE}.damaged-{secrets.token_hex(4)}"
        shutil.copyfile(self.file, self.path / name)
        return name

    def kept(self) -> list[int]:
        """Revisions of which there is a copy, oldest first."""
        try:
            names = os.listdir(self._revisions)
        except FileNotFoundError:
            return []
        stems = (name.removesuffix(".json") for name in names if name.endswith(".json"))
        return sorted(int(stem) for stem in stems if stem.isdecimal())

    def read_kept(self, revision: int) -> bytes | None:
        """The copy of a revision."""
        return _read(self._kept(revision))

    def keep(self, revision: int, data: bytes) -> None:
        """Write the copy of a revision."""
        self._make(self._revisions)
        _replace(self._kept(revision), data)

    def drop_kept(self, revision: int) -> None:
        """Remove the copy of a revision."""
        self._kept(revision).unlink(missing_ok=True)

    def kept_bytes(self, revision: int) -> int:
        """Size of a copy."""
        try:
            return self._kept(revision).stat().st_size
        except FileNotFoundError:
            return 0

    def remove(self) -> bool:
        """Remove everything of the user; whether there was anything.

        The folder is moved away first: killed in the middle, nothing of it is ever read again, and
        the next removal finishes the work.
        """
        trash = self._root / "trash"
        trash.mkdir(mode=0o700, exist_ok=True)
        found = True
        try:
            self.path.rename(trash / secrets.token_hex(16))
            _sync_folder(self.path.parent)
        except FileNotFoundError:
            found = False
        for each in trash.iterdir():
            shutil.rmtree(each, ignore_errors=True)
        return found

    def _kept(self, revision: int) -> Path:
        return self._revisions / f"{revision:010d}.json"

    def _make(self, folder: Path) -> None:
        if folder.is_dir():
            return
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for above in (folder.parent, self._root / "users", self._root):
            _sync_folder(above)


def _lock(descriptor: int, deadline: float) -> None:
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise _busy() from None
        time.sleep(random.uniform(0.001, 0.005))  # noqa: S311  (a thread of its own waits)


def _busy() -> StorageError:
    error = StorageError(
        f"Another process has been writing the memory for {LOCK_SECONDS:.0f} seconds.",
        cure="Try again; end that process if it hangs.",
    )
    error.retryable = True  # pyright: ignore[reportAttributeAccessIssue]  # of this one
    return error


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None


def _replace(file: Path, data: bytes) -> None:
    """Write beside it, then rename: readers and kills find the former or the new file, whole."""
    new = file.with_suffix(".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(descriptor)
    new.rename(file)
    _sync_folder(file.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
