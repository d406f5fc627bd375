"""A user's own skills: written, kept in earlier versions, and removed."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deerflow.errors import NotFoundError, UsageError
from deerflow.skills.folder import FILE, MAX_BYTES, ROOTS
from deerflow.skills.header import MAX_NAME, NAME, read_header
from deerflow.skills.protocol import SkillProblem

PAST = ".history"
"""Folder of earlier versions, beside the skills; nobody is offered what is in it."""
VERSIONS = 50
"""Versions of a skill that are kept."""


@dataclass(frozen=True, slots=True)
class Version:
    """A text that a skill had: number (from 1), UTC seconds of its writing, and bytes."""

    number: int
    written_at: float
    size: int


class OwnSkills:
    """Skills in the folder of a user, `<name>/SKILL.md`.

    Args:
        folder: of a user; it need not be there.
    """

    def __init__(self, folder: Callable[[str], Path]) -> None:
        self._folder = folder

    async def read(self, user_id: str, name: str) -> str:
        """The text of a SKILL.md. Raises NotFoundError."""
        return await asyncio.to_thread(self._read, user_id, name)

    async def write(self, user_id: str, name: str, text: str) -> None:
        """Write or replace a skill; the text is a version from now on.

        Raises:
            UsageError: no valid name, or a text that could not be loaded.
        """
        await asyncio.to_thread(self._write, user_id, name, text)

    async def delete(self, user_id: str, name: str) -> None:
        """Remove a skill with its folder and versions. Raises NotFoundError."""
        await asyncio.to_thread(self._delete, user_id, name)

    async def versions(self, user_id: str, name: str) -> list[Version]:
        """Of a skill, newest first. Raises NotFoundError."""
        return await asyncio.to_thread(self._versions, user_id, name)

    async def roll_back(self, user_id: str, name: str, number: int) -> None:
        """Give a skill the text of a version, as a new version. Raises NotFoundError."""
        await asyncio.to_thread(self._roll_back, user_id, name, number)

    def _file(self, user_id: str, name: str) -> Path:
        """The file of a skill that is there; nothing that a link leads to elsewhere."""
        root = self._folder(user_id)
        file = root / name / FILE
        if (
            not NAME.fullmatch(name)
            or not file.is_file()
            or not file.resolve().is_relative_to(root.resolve())
        ):
            raise NotFoundError(f"You have no skill {name[:80]!r} of your own.")
        return file

    def _read(self, user_id: str, name: str) -> str:
        with self._file(user_id, name).open(encoding="utf-8", errors="replace") as stream:
            return stream.read(MAX_BYTES)

    def _write(self, user_id: str, name: str, text: str) -> None:
        check(name, text)
        root = self._folder(user_id)
        folder = root / name
        past = root / PAST / name
        if not folder.resolve().is_relative_to(root.resolve()):
            raise UsageError(f"The skill {name} is a link to elsewhere.", cure="Remove it first.")
        folder.mkdir(parents=True, exist_ok=True)
        past.mkdir(parents=True, exist_ok=True)
        known = self._numbers(past)
        if not known and (folder / FILE).is_file():  # written by hand before
            shutil.copyfile(folder / FILE, past / "1.md")
            known = [1]
        _put(past / f"{max(known, default=0) + 1}.md", text)
        _put(folder / FILE, text)
        for number in known[: max(0, len(known) + 1 - VERSIONS)]:
            (past / f"{number}.md").unlink(missing_ok=True)

    def _delete(self, user_id: str, name: str) -> None:
        file = self._file(user_id, name)
        shutil.rmtree(self._folder(user_id) / PAST / name, ignore_errors=True)
        shutil.rmtree(file.parent)

    def _versions(self, user_id: str, name: str) -> list[Version]:
        file = self._file(user_id, name)
        past = self._folder(user_id) / PAST / name
        found: list[Version] = []
        for number in reversed(self._numbers(past)):
            facts = (past / f"{number}.md").stat()
            found.append(Version(number, facts.st_mtime, facts.st_size))
        if not found:
            facts = file.stat()
            found.append(Version(1, facts.st_mtime, facts.st_size))
        return found

    def _roll_back(self, user_id: str, name: str, number: int) -> None:
        self._file(user_id, name)
        source = self._folder(user_id) / PAST / name / f"{number}.md"
        if not source.is_file():
            raise NotFoundError(f"The skill {name} has no version {number}.")
        self._write(user_id, name, source.read_text(encoding="utf-8"))

    def _numbers(self, past: Path) -> list[int]:
        if not past.is_dir():
            return []
        return sorted(int(file.stem) for file in past.glob("*.md") if file.stem.isdecimal())


def check(name: str, text: str) -> None:
    """Refuse what could not be loaded.

    Raises:
        UsageError: says what is wrong with the name or the text.
    """
    if not NAME.fullmatch(name) or len(name) > MAX_NAME:
        raise UsageError(
            f"{name[:80]!r} is no name of a skill.",
            cure=f"Use up to {MAX_NAME} of a-z, 0-9 and single hyphens.",
        )
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise UsageError("The skill holds half a surrogate pair.", cure="Leave it away.") from None
    if size > MAX_BYTES:
        raise UsageError("The skill is larger than 1 MB.", cure="Move parts into files beside it.")
    header = read_header(text, f"{ROOTS['custom']}/{name}/{FILE}", name)
    if isinstance(header, SkillProblem):
        raise UsageError(f"{header.path}:{header.line}: {header.reason}.", cure=header.cure)
    if header.name != name:
        raise UsageError(
            f"The skill calls itself {header.name!r}, not {name!r}.", cure="Make them the same."
        )


def _put(file: Path, text: str) -> None:
    """Replace a file at once."""
    fresh = file.with_name(f".{file.name}.{time.time_ns()}.new")
    fresh.write_text(text, encoding="utf-8", newline="")
    fresh.replace(file)
