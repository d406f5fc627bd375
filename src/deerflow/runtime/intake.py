"""Uploads on their way into a thread: checked all at once, then copied under safe names."""

from __future__ import annotations

import contextlib
import errno
import filecmp
import os
import re
import shutil
import stat
import tempfile
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from deerflow.config.schema import UploadsConfig
from deerflow.errors import StorageError, UsageError

_MIB = 1024 * 1024
_DEVICES = re.compile(r"(?:CON|PRN|AUX|NUL|COM[1-9]|LPT[1-9])(?:\.|$)", re.IGNORECASE)
"""Names that are devices on Windows, with any suffix."""


def check_uploads(paths: Sequence[Path], limits: UploadsConfig) -> None:
    """Refuse before anything is written.

    Raises:
        UsageError: missing, unreadable, not a file, too many or too large; all in one message.
    """
    problems: list[str] = []
    total = 0
    if len(paths) > limits.max_files:
        problems.append(
            f"{len(paths)} files, at most {limits.max_files} are allowed (uploads.max_files)"
        )
    for path in paths:
        try:
            if not path.is_file():
                problems.append(f"{path}: {_what_else(path)}")
                continue
            with path.open("rb"):
                size = path.stat().st_size
        except OSError as error:
            problems.append(f"{path}: cannot be read ({error.strerror})")
            continue
        total += size
        if size > limits.max_file_size:
            problems.append(
                f"{path}: larger than {limits.max_file_size // _MIB} MiB (uploads.max_file_size)"
            )
    if total > limits.max_total_size:
        problems.append(
            f"together larger than {limits.max_total_size // _MIB} MiB (uploads.max_total_size)"
        )
    if problems:
        raise UsageError("Upload refused: " + "; ".join(problems) + ".")


def copy_uploads(paths: Sequence[Path], folder: Path) -> list[str]:
    """Copy each file to a safe name that is new or holds the same bytes; partial files never stay.

    Returns:
        The names below the folder, in order.

    Raises:
        StorageError: the folder cannot be written.
    """
    names: list[str] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if folder.is_symlink():  # without isolation an agent can put one in the folder's place
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        for path in paths:
            name = _free_name(folder, safe_name(path.name), path)
            _place(path, folder, name)
            names.append(name)
    except OSError as error:
        raise StorageError(
            f"An upload could not be stored ({error.strerror}).",
            cure="Free space or choose another DEER_FLOW_HOME.",
        ) from error
    return names


def _place(path: Path, folder: Path, name: str) -> None:
    """Copy by way of a new file: the agent writes this folder too, and may have left a link."""
    handle, part = tempfile.mkstemp(prefix=".upload-", dir=folder)
    try:
        with open(handle, "wb") as target, path.open("rb") as source:
            shutil.copyfileobj(source, target)
        os.chmod(part, 0o644)
        os.replace(part, folder / name)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)


def _what_else(path: Path) -> str:
    if path.is_dir():
        return "is a folder"
    return "is no regular file" if path.exists() else "does not exist"


def safe_name(name: str) -> str:
    """A name without separators, control characters and leading dots; all scripts stay.

    What is a device's name on some system gets an underscore in front.
    """
    clean = "".join(
        "_" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") or c in '/\\:*?"<>|' else c
        for c in unicodedata.normalize("NFC", name)
    ).strip(" .")
    while len(clean.encode()) > 200:
        stem, dot, suffix = clean.rpartition(".")
        clean = f"{stem[:-1]}{dot}{suffix}" if stem else clean[:-1]
    return f"_{clean}" if _DEVICES.match(clean) else clean or "file"


def _free_name(folder: Path, name: str, source: Path) -> str:
    stem, dot, suffix = name.rpartition(".")
    if not stem:
        stem, dot, suffix = name, "", ""
    candidate, number = name, 1
    while os.path.lexists(folder / candidate) and not _same(folder / candidate, source):
        number += 1
        candidate = f"{stem}-{number}{dot}{suffix}"
    return candidate


def _same(placed: Path, source: Path) -> bool:
    """Whether a file in the folder holds the bytes of the source; links and pipes never do."""
    facts = placed.lstat()
    if not stat.S_ISREG(facts.st_mode) or facts.st_size != source.stat().st_size:
        return False
    return filecmp.cmp(placed, source, shallow=False)
