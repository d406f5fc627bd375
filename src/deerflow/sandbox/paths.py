"""Virtual paths: which folder of the thread a path names, and the way back."""

from __future__ import annotations

import os
import posixpath
import re
from dataclasses import dataclass
from pathlib import Path

from deerflow.errors import PathError
from deerflow.sandbox.protocol import (
    OUTPUTS,
    SKILLS,
    UPLOADS,
    USER_DATA,
    WORKSPACE,
    ThreadFolders,
)

SKILLS_PUBLIC = f"{SKILLS}/public"
SKILLS_CUSTOM = f"{SKILLS}/custom"

REACHABLE = (
    f"Use a path below {WORKSPACE}, {UPLOADS} or {OUTPUTS} ({SKILLS} is read-only); "
    "a relative path starts in the current directory."
)
"""Cure of every path that names nothing of the virtual tree."""

_DRIVE = re.compile(r"^(?:[A-Za-z]:[\\/]|\\\\[^\\])")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Mount:
    """One folder of the virtual tree: virtual prefix, host folder, whether tools may write."""

    virtual: str
    host: Path
    writable: bool


@dataclass(frozen=True, slots=True)
class Place:
    """What a path names.

    Attributes:
        virtual: absolute, normalised, without a trailing slash.
        mount: the folder that holds it, None for the bare directories above (`/mnt/user-data`).
        parts: names below the mount, () for the mount itself.
    """

    virtual: str
    mount: Mount | None
    parts: tuple[str, ...]


class VirtualPaths:
    """The virtual tree of one thread. Pure text: nothing here touches the disk."""

    def __init__(self, folders: ThreadFolders) -> None:
        self.mounts = _mounts(folders)
        self._bare = {
            parent for mount in self.mounts for parent in _parents(mount.virtual) if parent != "/"
        }

    def resolve(self, path: str, cwd: str = "") -> Place:
        """Name the place of a path.

        `.` and `..` are taken out of the text; links are the file system's business.

        Args:
            path: absolute virtual, or relative to `cwd`; "" is `cwd` itself. Back-slashes in a
                relative path count as slashes (Windows habit).
            cwd: absolute virtual directory, "" for the workspace.

        Raises:
            PathError: outside the virtual tree, a Windows drive, or no file name at all.
        """
        absolute = absolute_path(path, cwd)
        for mount in self.mounts:
            if absolute == mount.virtual:
                return Place(absolute, mount, ())
            if absolute.startswith(mount.virtual + "/"):
                rest = absolute[len(mount.virtual) + 1 :]
                return Place(absolute, mount, tuple(rest.split("/")))
        if absolute in self._bare:
            return Place(absolute, None, ())
        raise PathError(f"{show_path(path)} is not in the file tree of the tools.", cure=REACHABLE)

    def below(self, virtual: str) -> list[str]:
        """Names directly below a bare directory (`/mnt/user-data` → outputs, …)."""
        prefix = virtual.rstrip("/") + "/"
        names = {
            mount.virtual[len(prefix) :].split("/")[0]
            for mount in self.mounts
            if mount.virtual.startswith(prefix)
        }
        return sorted(names)


def absolute_path(path: str, cwd: str = "") -> str:
    """The absolute, normalised text of a path (may be outside the tree).

    Raises:
        PathError: a Windows drive or share, a NUL, or text that is not Unicode.
    """
    if _DRIVE.match(path):
        raise PathError(
            f"{show_path(path)} is a path of Windows; the tools have their own file tree.",
            cure=f"{REACHABLE} Write / between names. Uploaded files are in {UPLOADS}.",
        )
    if "\0" in path:
        raise PathError("A path cannot hold a NUL character.", cure=REACHABLE)
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise PathError(
            f"{show_path(path)} is not valid Unicode.",
            cure="List the directory with `ls`; rename odd names with bash.",
        ) from error
    if not path.startswith("/"):
        path = path.replace("\\", "/")  # may turn `\mnt\user-data` into an absolute path
    joined = posixpath.normpath(posixpath.join("/", cwd or WORKSPACE, path))
    return "/" + joined.lstrip("/")


def show_path(path: str) -> str:
    """A path as it can be put into a message: cut at 300 characters, always encodable."""
    text = path.encode("utf-8", "backslashreplace").decode("utf-8")
    text = _CONTROL.sub("?", text)
    return f"'{text if len(text) <= 300 else text[:300] + '…'}'"


def replace_virtual_path(path: str, folders: ThreadFolders) -> Path:
    """Host path of a virtual one, for the operator's eyes (artifact list) and the gateway.

    Raises:
        PathError: outside the tree, or a bare directory other than `/mnt/user-data`.
    """
    place = VirtualPaths(folders).resolve(path)
    if place.mount is not None:
        return place.mount.host.joinpath(*place.parts)
    if place.virtual == USER_DATA:
        return folders.root
    raise PathError(f"{show_path(path)} has no folder of its own.", cure=REACHABLE)


def hide_host_paths(text: str, folders: ThreadFolders) -> str:
    """The text with every host path of the thread replaced by its virtual one."""
    pairs = [(mount.host, mount.virtual) for mount in _mounts(folders)] + [
        (folders.root, USER_DATA)
    ]
    known: dict[str, str] = {}
    for host, virtual in pairs:
        for shape in (os.path.abspath(host), os.path.realpath(host)):
            known.setdefault(shape.rstrip("/"), virtual)
    known.pop("", None)
    longest = sorted(known, key=len, reverse=True)
    pattern = "|".join(map(re.escape, longest))
    return re.sub(rf"(?:{pattern})(?![\w-])", lambda match: known[match[0]], text)


def _mounts(folders: ThreadFolders) -> tuple[Mount, ...]:
    mounts = [
        Mount(WORKSPACE, folders.workspace, True),
        Mount(UPLOADS, folders.uploads, True),
        Mount(OUTPUTS, folders.outputs, True),
    ]
    if folders.skills_public is not None:
        mounts.append(Mount(SKILLS_PUBLIC, folders.skills_public, False))
    if folders.skills_custom is not None:
        mounts.append(Mount(SKILLS_CUSTOM, folders.skills_custom, False))
    return tuple(mounts)


def _parents(path: str) -> list[str]:
    names = path.strip("/").split("/")
    return ["/" + "/".join(names[:count]) for count in range(len(names))]
