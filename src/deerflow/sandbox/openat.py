"""Opens files of the virtual tree so that no link, `..` or race can lead outside a mount.

The kernel does the checking: `openat2(RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)` for the way to the
parent directory, then `O_NOFOLLOW` for the last name. A link that BENEATH refuses (absolute, into
a neighbouring mount) is read and resolved again as a virtual path, one name at a time on open
directories; that walk also serves kernels without openat2.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import posixpath
import stat
from collections.abc import Generator
from dataclasses import dataclass

from deerflow.errors import DeerFlowError, PathError, SandboxError
from deerflow.sandbox.paths import REACHABLE, Mount, Place, VirtualPaths, show_path
from deerflow.sandbox.protocol import ThreadFolders

SYS_OPENAT2 = 437
"""Number of openat2 on every Linux architecture (asm-generic/unistd.h)."""
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_BENEATH = 0x08
MAX_LINKS = 40
"""Links followed before giving up; the kernel's own bound (MAXSYMLINKS)."""

_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
"""How files are opened: never waiting for a pipe or device, never through a link."""
_MADE = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WALK_INSTEAD = {errno.EXDEV, errno.ELOOP, errno.ENOSYS, errno.EPERM, errno.EAGAIN}
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

_libc = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    """`struct open_how` of linux/openat2.h."""

    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def open_beneath(directory: int, path: bytes, flags: int) -> int:
    """File descriptor of a path that stays below an open directory.

    Raises:
        OSError: as openat2; EXDEV when the path would leave, ENOSYS on kernels before 5.6.
    """
    how = _OpenHow(flags | os.O_CLOEXEC, 0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)
    fd = _libc.syscall(
        ctypes.c_long(SYS_OPENAT2),
        ctypes.c_int(directory),
        ctypes.c_char_p(path),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    if fd < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return fd


@dataclass(frozen=True, slots=True)
class Spot:
    """A name in an open directory: what every operation works on.

    Attributes:
        directory: descriptor of the parent; "." names the mount itself.
        name: last name in UTF-8 (never the locale's encoding); no link when it was looked at.
        place: where it is after links were followed.
    """

    directory: int
    name: bytes
    place: Place


class Opener:
    """Finds spots of one thread's virtual tree. Blocking: call it from a thread.

    Args:
        folders: host folders.
        owner: (uid, gid) that gets what is made here, None to leave it to the process.
    """

    def __init__(self, folders: ThreadFolders, owner: tuple[int, int] | None = None) -> None:
        self.paths = VirtualPaths(folders)
        self.owner = owner

    @contextlib.contextmanager
    def spot(self, place: Place, *, make: bool = False) -> Generator[Spot, None, None]:
        """The spot of a place, links inside the tree followed.

        Args:
            place: in a mount.
            make: make missing folders (mount included) on the way; the mount must be writable.

        Raises:
            PathError: a link leaves the tree; a bare directory; read-only although `make`.
            OSError: as the kernel says; see `translated`.
        """
        for _ in range(MAX_LINKS):
            found = self._find(place, make)
            if isinstance(found, Spot):
                break
            place = found
        else:
            raise PathError(f"{show_path(place.virtual)}: too many links.", cure=REACHABLE)
        try:
            yield found
        finally:
            os.close(found.directory)

    def _find(self, place: Place, make: bool) -> Spot | Place:
        mount = place.mount
        if mount is None:
            names = ", ".join(self.paths.below(place.virtual))
            raise PathError(f"{show_path(place.virtual)} only holds {names}.", cure=REACHABLE)
        if make and not mount.writable:
            raise PathError(
                f"{show_path(place.virtual)} is read-only.", cure="Write below /mnt/user-data."
            )
        root = self._root(mount, make)
        try:
            if not place.parts:
                return Spot(os.dup(root), b".", place)
            quick = None if make else self._quick(root, place)
            return quick if quick is not None else self._walk(root, mount, place, make)
        finally:
            os.close(root)

    def ensure(self, mount: Mount) -> None:
        """Make a mount's folder if it is missing."""
        os.close(self._root(mount, True))

    def _root(self, mount: Mount, make: bool) -> int:
        try:
            return os.open(mount.host, _DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            if not make:
                raise
        os.makedirs(mount.host, mode=0o755, exist_ok=True)
        fd = os.open(mount.host, _MADE)
        self.give(fd)
        return fd

    def _quick(self, root: int, place: Place) -> Spot | None:
        """One system call for the parent; None when a link needs the walk."""
        name = place.parts[-1].encode()
        parent = "/".join(place.parts[:-1]).encode() or b"."
        try:
            directory = open_beneath(root, parent, _DIRECTORY)
        except OSError as error:
            if error.errno in _WALK_INSTEAD:
                return None
            raise
        try:
            linked = is_link(directory, name)
        except OSError:
            os.close(directory)
            raise
        if linked:
            os.close(directory)
            return None
        return Spot(directory, name, place)

    def _walk(self, root: int, mount: Mount, place: Place, make: bool) -> Spot | Place:
        """Name by name; the first link ends it with the place that it leads to."""
        directory = os.dup(root)
        try:
            for index, name in enumerate(part.encode() for part in place.parts):
                if is_link(directory, name):
                    target = os.readlink(name, dir_fd=directory)
                    os.close(directory)
                    return self._redirect(
                        mount, place.parts, index, target.decode("utf-8", "surrogateescape")
                    )
                if index == len(place.parts) - 1:
                    break
                below = self._enter(directory, name, make)
                os.close(directory)
                directory = below
        except OSError:
            os.close(directory)
            raise
        return Spot(directory, place.parts[-1].encode(), place)

    def _enter(self, directory: int, name: bytes, make: bool) -> int:
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=directory)
                below = os.open(name, _MADE, dir_fd=directory)
                self.give(below)
                return below
        return os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)

    def _redirect(self, mount: Mount, parts: tuple[str, ...], index: int, target: str) -> Place:
        here = posixpath.join(mount.virtual, *parts[:index])
        target = self._inside(target)
        try:
            return self.paths.resolve(posixpath.join(target, *parts[index + 1 :]), here)
        except PathError as error:
            link = show_path(posixpath.join(here, parts[index]))
            raise PathError(
                f"{link} is a link that leaves the file tree.",
                cure="Remove the link, or copy what it points to with bash.",
            ) from error

    @contextlib.contextmanager
    def opened(self, place: Place) -> Generator[int, None, None]:
        """Descriptor of a regular file, opened without waiting for pipes or devices."""
        with self.spot(place) as spot:
            fd = os.open(spot.name, READ, dir_fd=spot.directory)
        try:
            mode = os.fstat(fd).st_mode
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(21, "")
            if not stat.S_ISREG(mode):
                raise PathError(
                    f"{show_path(place.virtual)} is a pipe, socket or device, not a file.",
                    cure="Only regular files can be read; use bash for others.",
                )
            yield fd
        finally:
            os.close(fd)

    def _inside(self, target: str) -> str:
        """A link's target in virtual terms: where nothing is mounted, shells write host paths."""
        for mount in self.paths.mounts:
            host = str(mount.host)
            if target == host or target.startswith(host + "/"):
                return mount.virtual + target[len(host) :]
        return target

    def give(self, fd: int) -> None:
        """Hand an open file or directory to the sandbox's user."""
        if self.owner is not None:
            os.fchown(fd, *self.owner)


def is_link(directory: int, name: bytes) -> bool:
    """Whether a name is a symbolic link; False when it does not exist."""
    try:
        mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return False
    return stat.S_ISLNK(mode)


_MESSAGES: dict[int, tuple[str, str]] = {
    errno.ENOENT: ("does not exist.", "List the directory with `ls`."),
    errno.ENOTDIR: (
        "lies below something that is not a directory.",
        "List the directory with `ls`.",
    ),
    errno.EISDIR: ("is a directory.", "List it with `ls`, or name a file in it."),
    errno.EACCES: (
        "may not be opened.",
        "Look at its mode with `bash` (ls -l) and change it (chmod).",
    ),
    errno.ENAMETOOLONG: ("has a name that is too long.", "Names have at most 255 bytes."),
    errno.ELOOP: ("is a link, or changed into one just now.", "Look again with `ls`."),
    errno.EXDEV: ("leads outside the file tree.", REACHABLE),
    errno.ENXIO: ("is not a regular file.", "Only regular files can be read; use bash for others."),
}


@contextlib.contextmanager
def translated(virtual: str) -> Generator[None, None, None]:
    """Turn an OSError of the block into an error that names the virtual path alone."""
    try:
        yield
    except OSError as error:
        raise translate(error, virtual) from None


def translate(error: OSError, virtual: str) -> DeerFlowError:
    """What an OSError means for the reader; no host path in it."""
    code = error.errno or 0
    if code in _NO_SPACE:
        return SandboxError(
            f"{show_path(virtual)} was not written: no space left.",
            cure="Delete what is not needed with bash, or write less.",
        )
    what, cure = _MESSAGES.get(code, (f"failed: {os.strerror(code)}.", REACHABLE))
    return PathError(f"{show_path(virtual)} {what}", cure=cure)
