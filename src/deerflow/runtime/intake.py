"""Uploads on their way into a thread: checked all at once, then copied under safe names."""

from __future__ import annotations

import os
import shutil
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from deerflow.config.schema import UploadsConfig
from deerflow.errors import StorageError, UsageError

_MIB = 1024 * 1024


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
                reason = "is a folder" if path.is_dir() else "does not exist"
                problems.append(f"{path}: {reason}")
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
        for path in paths:
            name = _free_name(folder, safe_name(path.name), path)
            part = folder / f".{name}.part"
            try:
                shutil.copyfile(path, part)
                os.replace(part, folder / name)
            finally:
                part.unlink(missing_ok=True)
            names.append(name)
    except OSError as error:
        raise StorageError(
            f"An upload could not be stored ({error.strerror}).",
            cure="Free space or choose another DEER_FLOW_HOME.",
        ) from error
    return names


def safe_name(name: str) -> str:
    """A name without separators, control characters and leading dots; all scripts stay."""
    clean = "".join(
        "_" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") or c in '/\\:*?"<>|' else c
        for c in unicodedata.normalize("NFC", name)
    ).strip(" .")
    while len(clean.encode()) > 200:
        stem, dot, suffix = clean.rpartition(".")
        clean = f"{stem[:-1]}{dot}{suffix}" if stem else clean[:-1]
    return clean or "file"


def _free_name(folder: Path, name: str, source: Path) -> str:
    stem, dot, suffix = name.rpartition(".")
    if not stem:
        stem, dot, suffix = name, "", ""
    candidate, number = name, 1
    while (folder / candidate).exists() and not _same(folder / candidate, source):
        number += 1
        candidate = f"{stem}-{number}{dot}{suffix}"
    return candidate


def _same(one: Path, other: Path) -> bool:
    return one.stat().st_size == other.stat().st_size and one.read_bytes() == other.read_bytes()
