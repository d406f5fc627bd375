"""Hands a thread's folders to the uid that its sandbox runs under."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_FOLDERS = ("workspace", "uploads", "outputs")


_CAPABILITIES = (0, 6, 7)
"""CAP_CHOWN, CAP_SETGID, CAP_SETUID."""


def may_change_uid(uids: range, proc: Path = Path("/proc/self")) -> bool:
    """Whether this process can run sandboxes under these uids.

    Root alone is not enough: a container may have dropped the capabilities, and a user namespace
    may not know the
    uids. Blocking.
    """
    if os.geteuid() != 0:
        return False
    status = (proc / "status").read_text(encoding="ascii", errors="replace")
    effective = next((ln for ln in status.splitlines() if ln.startswith("CapEff:")), "CapEff: 0")
    held = int(effective.split()[1], 16)
    rows = [row.split() for row in (proc / "uid_map").read_text(encoding="ascii").splitlines()]
    mapped = any(
        int(first) <= uids[0] and uids[-1] < int(first) + int(size) for first, _, size in rows
    )
    return mapped and all(held >> bit & 1 for bit in _CAPABILITIES)


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


def keeper_of(folder: int) -> tuple[int, int] | None:
    """(uid, gid) that a new file in an open folder of a thread is to have.

    None when it is this process's own: no sandbox has run there yet, or uids cannot be changed.
    """
    facts = os.fstat(folder)
    if os.geteuid() != 0 or facts.st_uid == 0:
        return None
    return facts.st_uid, facts.st_gid
