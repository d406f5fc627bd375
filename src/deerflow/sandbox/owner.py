"""Hands a thread's folders to the uid that its sandbox runs under."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_FOLDERS = ("workspace", "uploads", "outputs")


def hand_over(root: Path, owner: tuple[int, int] | None, uids: range) -> None:
    """Make the thread's folders and give them and all below to the owner. Blocking.

    Only what belongs to the server or to another sandbox changes hands, never through a link,
    and never a file
    with a second name that some other owner may hold. The root itself stays the server's: the
    sandbox cannot
    replace its folders.

    Args:
        root: the thread's host folder.
        owner: (uid, gid), None to change nothing.
        uids: the sandboxes' uids.
    """
    for name in _FOLDERS:
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        if owner is not None:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(folder, flags)
            try:
                if os.fstat(fd).st_uid != owner[0]:
                    _give_below(fd, owner, uids)
                    os.fchown(fd, *owner)  # last: a half-done walk is done again
            finally:
                os.close(fd)


def _give_below(folder: int, owner: tuple[int, int], uids: range) -> None:
    ours = os.geteuid()
    for _, names, files, fd in os.fwalk(".", dir_fd=folder, follow_symlinks=False):
        for name in (*names, *files):
            info = os.stat(name, dir_fd=fd, follow_symlinks=False)
            foreign = info.st_uid not in uids and info.st_uid != ours
            doubled = stat.S_ISREG(info.st_mode) and info.st_nlink > 1 and info.st_uid not in uids
            if info.st_uid != owner[0] and not foreign and not doubled:
                os.chown(name, *owner, dir_fd=fd, follow_symlinks=False)


def owner_of(root: Path) -> int | None:
    """Uid that the workspace belongs to, None when there is none yet."""
    try:
        return os.lstat(root / "workspace").st_uid
    except OSError:
        return None
