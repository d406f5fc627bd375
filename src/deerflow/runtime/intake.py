"""Uploads on their way into a thread: checked all at once, then copied under safe names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from deerflow.config.schema import UploadsConfig
from deerflow.errors import UsageError
from deerflow.runtime.incoming import Incoming, open_folder, stored

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
    with stored(), open_folder(folder) as directory:
        for path in paths:
            with Incoming(folder.parent) as file, path.open("rb") as source:
                while chunk := source.read(_MIB):
                    file.write(chunk)
                names.append(file.place(directory, safe_name(path.name)))
    return names


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
