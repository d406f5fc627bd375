"""What a run changed in workspace and outputs: looked at when it begins and when it ends.

Where nothing lies, nothing is read. Texts of the beginning are kept beside the thread's folders
until the run is over, so that a run which is taken up elsewhere is still compared with its own
beginning; the result lies there as well, as diffs would swell the event log.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import orjson

from deerflow.runtime.linediff import diff
from deerflow.sandbox.protocol import OUTPUTS, WORKSPACE, ThreadFolders

logger = logging.getLogger(__name__)

VERSION = 1
FOLDER = "changes"
SCANNED = 5_000
"""Files that are looked at."""
LISTED = 200
"""Changed files that are told."""
TEXT_BYTES = 256 * 1024
"""Of a file that is compared line by line; a larger one is told as changed."""
KEPT_BYTES = 8 * 1024 * 1024
"""Of all texts of a beginning together."""
DIFF_CHARS = 64 * 1024
"""Of one file's diff."""
DIFFS_CHARS = 512 * 1024
"""Of all diffs of a run together."""
SECONDS = 2.0
"""For the diffs of a run; files after that are told without one."""
RESULTS = 100
"""Runs of a thread whose diffs are kept."""
SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})
"""Folders that are not looked into, beside hidden ones."""
LIMITS = {
    "max_scanned_files": SCANNED,
    "max_files": LISTED,
    "max_text_bytes": TEXT_BYTES,
    "max_diff_chars": DIFF_CHARS,
    "max_total_diff_chars": DIFFS_CHARS,
}

Kind = Literal["file", "link"]


@dataclass(frozen=True, slots=True)
class Facts:
    """Of one file: kind, bytes, time of change in ns, and its text when that was kept."""

    kind: Kind
    size: int
    modified: int
    text: str | None = None

    def same(self, other: Facts) -> bool:
        """Whether nothing tells them apart."""
        if (self.kind, self.size, self.modified) == (other.kind, other.size, other.modified):
            return True
        return self.text is not None and self.text == other.text


@dataclass(frozen=True, slots=True)
class Beginning:
    """Files by virtual path when a run began; `partly` when there were more than are looked at."""

    files: dict[str, Facts] = field(default_factory=dict[str, Facts])
    partly: bool = False


async def begun(folders: ThreadFolders, run_id: str, *, resumed: bool) -> Beginning | None:
    """What is there when a run begins; None when it cannot be told.

    Args:
        folders: of the thread.
        run_id: the run.
        resumed: whether it had begun before; the beginning is then the one that was kept.
    """
    if not folders.root.exists():
        return Beginning()
    return await asyncio.to_thread(_begun, folders, run_id, resumed)


async def ended(
    folders: ThreadFolders, run_id: str, beginning: Beginning, *, over: bool
) -> dict[str, Any] | None:
    """Payload of `workspace_changes`, None when nothing changed; diffs are kept for `result_of`.

    Args:
        folders: of the thread.
        run_id: the run.
        beginning: as `begun` gave it.
        over: False when the run waits for a human and goes on later.
    """
    if not folders.root.exists() and not beginning.files:
        return None
    return await asyncio.to_thread(_ended, folders, run_id, beginning, over)


async def result_of(folders: ThreadFolders, run_id: str) -> dict[str, Any] | None:
    """{summary, files} of a run with diffs; None when nothing changed or it is no longer kept."""
    return await asyncio.to_thread(_load, _place(folders) / f"{run_id}.json")


# the rest blocks and runs in threads


def _begun(folders: ThreadFolders, run_id: str, resumed: bool) -> Beginning | None:
    path = _place(folders) / f"{run_id}.begun"
    try:
        if resumed:
            kept = _load(path) or {"files": {}, "partly": False}
            files = {name: Facts(*facts) for name, facts in kept["files"].items()}
            return Beginning(files, kept["partly"])
        beginning = _look(folders)
        if beginning.files:
            _save(
                path,
                {
                    "partly": beginning.partly,
                    "files": {
                        name: (facts.kind, facts.size, facts.modified, facts.text)
                        for name, facts in beginning.files.items()
                    },
                },
            )
    except (OSError, TypeError, KeyError) as error:
        logger.warning("changes of run %s are not recorded: %s", run_id, error)
        return None
    return beginning


def _ended(
    folders: ThreadFolders, run_id: str, beginning: Beginning, over: bool
) -> dict[str, Any] | None:
    place = _place(folders)
    try:
        files, summary = _compare(beginning, _look(folders))
        if files:
            _save(place / f"{run_id}.json", {"summary": summary, "files": files})
            _thin(place)
        if over:
            (place / f"{run_id}.begun").unlink(missing_ok=True)
    except OSError as error:
        logger.warning("changes of run %s are not recorded: %s", run_id, error)
        return None
    if not files:
        return None
    told = [{key: value for key, value in file.items() if key != "diff"} for file in files]
    return {"summary": summary, "files": told}


def _compare(before: Beginning, after: Beginning) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    names = sorted(before.files.keys() | after.files.keys())
    differ = [
        name
        for name in names
        if name not in before.files
        or name not in after.files
        or not before.files[name].same(after.files[name])
    ]
    room, until = DIFFS_CHARS, time.monotonic() + SECONDS
    partly = before.partly or after.partly
    if partly:  # what was not looked at once must not seem to have come or gone
        differ = [name for name in differ if name in before.files and name in after.files]
    files: list[dict[str, Any]] = []
    for name in differ[:LISTED]:
        limit = min(room, DIFF_CHARS) if time.monotonic() < until else 0
        file = _entry(name, before.files.get(name), after.files.get(name), limit)
        room -= len(file["diff"])
        files.append(file)
    status = [_status(before.files.get(name), after.files.get(name)) for name in differ]
    summary: dict[str, Any] = {
        kind: status.count(kind) for kind in ("created", "modified", "deleted", "symlink_created")
    }
    summary["additions"] = sum(file["additions"] for file in files)
    summary["deletions"] = sum(file["deletions"] for file in files)
    summary["truncated"] = partly or len(differ) > len(files)
    return files, summary


def _status(old: Facts | None, new: Facts | None) -> str:
    if new is None:
        return "deleted"
    if new.kind == "link":
        return "symlink_created" if old is None or old.kind != "link" else "modified"
    return "created" if old is None else "modified"


def _entry(name: str, old: Facts | None, new: Facts | None, limit: int) -> dict[str, Any]:
    """One changed file; at most so many characters of its diff, none for 0."""
    texts = [facts.text if facts is not None else "" for facts in (old, new)]
    before, after = texts
    found = diff(before, after) if limit and before is not None and after is not None else None
    text = found.text if found is not None else ""
    return {
        "path": name,
        "root": "outputs" if name.startswith(OUTPUTS) else "workspace",
        "status": _status(old, new),
        "size": new.size if new is not None else 0,
        "size_before": old.size if old is not None else 0,
        "additions": found.additions if found is not None else 0,
        "deletions": found.deletions if found is not None else 0,
        "binary": found is None,
        "diff": text[:limit],
        "diff_truncated": len(text) > limit,
    }


def _look(folders: ThreadFolders) -> Beginning:
    files: dict[str, Facts] = {}
    room = KEPT_BYTES
    for root, host in ((OUTPUTS, folders.outputs), (WORKSPACE, folders.workspace)):
        for name, facts in _walk(host, room):
            if len(files) >= SCANNED:
                return Beginning(files, partly=True)
            room -= facts.size if facts.text is not None else 0
            shown = os.fsencode(name).decode(errors="backslashreplace")
            files[f"{root}/{shown}"] = facts
    return Beginning(files)


def _walk(host: Path, room: int) -> Iterator[tuple[str, Facts]]:
    """Files and links below a folder, on open directories: no link is ever followed.

    Args:
        host: the folder; a link in its place is not looked into.
        room: bytes of text that may be read.
    """
    if host.is_symlink() or not host.is_dir():
        return
    for folder, folders, names, fd in os.fwalk(host, follow_symlinks=False):
        below = os.path.relpath(folder, host)
        dirs = sorted(n for n in folders if not n.startswith(".") and n not in SKIPPED)
        folders[:] = dirs
        for name in sorted([*names, *dirs]):
            if name.startswith("."):
                continue
            try:
                facts = _facts(fd, name, room)
            except OSError:  # a process of the sandbox took it away meanwhile
                continue
            if facts is not None:
                room -= facts.size if facts.text is not None else 0
                yield os.path.normpath(os.path.join(below, name)), facts


def _facts(folder: int, name: str, room: int) -> Facts | None:
    """Of a regular file or a link, None for anything else; with its text when there is room."""
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        return Facts("link", found.st_size, found.st_mtime_ns)
    if not stat.S_ISREG(found.st_mode):
        return None
    text = None
    if found.st_size <= min(TEXT_BYTES, room):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(name, flags, dir_fd=folder)
        try:
            text = _decoded(os.read(fd, TEXT_BYTES + 1))
        finally:
            os.close(fd)
    return Facts("file", found.st_size, found.st_mtime_ns, text)


def _decoded(data: bytes) -> str | None:
    """Bytes as text, None when they are none, or too many."""
    if len(data) > TEXT_BYTES or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _place(folders: ThreadFolders) -> Path:
    return folders.root.parent / FOLDER


def _load(path: Path) -> dict[str, Any] | None:
    try:
        return orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None


def _save(path: Path, data: dict[str, Any]) -> None:
    """Replace a file at once; nothing is made again for a thread that is gone."""
    with contextlib.suppress(FileExistsError):
        path.parent.mkdir()
    trial = path.with_name(f".{secrets.token_hex(8)}")
    trial.write_bytes(orjson.dumps(data))
    trial.replace(path)


def _thin(place: Path) -> None:
    """Drop the oldest results."""
    found = sorted(place.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    for path in found[:-RESULTS]:
        path.unlink(missing_ok=True)
