"""Skills in folders on disk: `<folder>/<name>/SKILL.md`, up to three folders deep."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from deerflow.skills.header import Header, read_header
from deerflow.skills.listing import no_skill
from deerflow.skills.protocol import Skill, SkillListing, SkillProblem

FILE = "SKILL.md"
DEPTH = 3
"""Folders between the root and a SKILL.md."""
MAX_BYTES = 1_048_576
"""Of a SKILL.md; a larger file is no instruction."""
ROOTS = {"public": "/mnt/skills/public", "custom": "/mnt/skills/custom"}
"""Where the agent sees them."""

MAX_WATCHED = 100
"""Files and folders that are looked at without a thread; with more of them a thread does it."""
SETTLED_SECONDS = 0.1
"""Age from which times tell whether something changes again: the clock of a file system ticks
every few milliseconds only."""

MAX_USERS = 256
"""Users whose listing is kept at hand."""

Stamp = tuple[int, int, int, int]
"""Changes with a file or folder: modified, changed (ns), size, inode."""

Origin = Literal["public", "custom"]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A parsed file, remembered until it changes."""

    stamp: tuple[int, int, int]
    header: Header | SkillProblem


@dataclass(slots=True)
class _Watch:
    """What a listing was made from: path → stamp, None where nothing was."""

    stamps: dict[str, Stamp | None] = field(default_factory=dict[str, "Stamp | None"])
    links: bool = False

    def see(self, path: Path) -> None:
        """Note a path; what a link leads to can change without a trace here."""
        self.links = self.links or path.is_symlink()
        self.stamps[str(path)] = _stamp(str(path))

    def is_settled(self, age: float) -> bool:
        """Whether a change of anything would change a stamp: all is older than `age` seconds."""
        limit = (time.time() - age) * 1e9
        old = (stamp is None or max(stamp[:2]) < limit for stamp in self.stamps.values())
        return not self.links and len(self.stamps) <= MAX_WATCHED and all(old)

    def is_current(self) -> bool:
        """Whether nothing has changed; a look at each path, quick enough for a loop."""
        return all(_stamp(path) == stamp for path, stamp in self.stamps.items())


class FolderSkills:
    """Skills of everybody and of each user.

    Args:
        public: folder of skills for all users, or None.
        custom: the folder of a user's own skills, or None when there is none.
        age: seconds after a change for which a listing is not kept.
    """

    def __init__(
        self,
        public: Path | None,
        custom: Callable[[str], Path | None],
        *,
        age: float = SETTLED_SECONDS,
    ) -> None:
        self._age = age
        self._public = public
        self._custom = custom
        self._known: dict[str, _Entry] = {}
        self._listed: dict[str, tuple[Path | None, _Watch, SkillListing]] = {}

    async def list(self, user_id: str) -> SkillListing:
        """See SkillStore. A folder that has not changed is not read again."""
        own = self._custom(user_id)
        kept = self._listed.get(user_id)
        if kept is not None and kept[0] == own and kept[1].is_current():
            return kept[2]
        watch, listing = await asyncio.to_thread(self._list, user_id)
        self._keep(user_id, own, watch, listing)
        return listing

    async def load(self, user_id: str, name: str) -> tuple[Skill, str]:
        """See SkillStore."""
        return await asyncio.to_thread(self._load, user_id, name)

    def _load(self, user_id: str, name: str) -> tuple[Skill, str]:
        listing, bodies = self._read(user_id, _Watch())
        for skill in listing.skills:
            if skill.name == name:
                return skill, bodies[name]
        raise no_skill(name, listing)

    def _keep(self, user_id: str, own: Path | None, watch: _Watch, listing: SkillListing) -> None:
        if not watch.is_settled(self._age):
            self._listed.pop(user_id, None)
            return
        if len(self._listed) >= MAX_USERS:
            self._listed.clear()
        self._listed[user_id] = own, watch, listing

    def _list(self, user_id: str) -> tuple[_Watch, SkillListing]:
        watch = _Watch()
        return watch, self._read(user_id, watch)[0]

    def _read(self, user_id: str, watch: _Watch) -> tuple[SkillListing, dict[str, str]]:
        found: dict[str, Skill] = {}
        bodies: dict[str, str] = {}
        problems: list[SkillProblem] = []
        roots: tuple[tuple[Origin, Path | None], ...] = (
            ("custom", self._custom(user_id)),
            ("public", self._public),
        )
        for source, root in roots:
            if root is None:
                continue
            for file in _files(root, watch):
                path = f"{ROOTS[source]}/{file.relative_to(root).as_posix()}"
                header = _outside(file, root, path) or self._header(file, path)
                if isinstance(header, SkillProblem):
                    problems.append(header)
                    continue
                if header.name in found:
                    problems.append(_clash(path, header.name, found[header.name]))
                    continue
                found[header.name] = _skill(header, path, source)
                bodies[header.name] = header.body
        return SkillListing(tuple(found[n] for n in sorted(found)), tuple(problems)), bodies

    def _header(self, file: Path, path: str) -> Header | SkillProblem:
        try:
            facts = file.stat()
            if not stat.S_ISREG(facts.st_mode):  # a pipe would be waited for, a device has no end
                return SkillProblem(path, 0, "is no regular file", "Put a plain file there.")
            stamp = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
            known = self._known.get(str(file))
            if known is not None and known.stamp == stamp:
                return known.header
            if facts.st_size > MAX_BYTES:
                cure = "Move parts of it into files beside it and name them."
                header: Header | SkillProblem = SkillProblem(path, 0, "larger than 1 MB", cure)
            else:
                text = file.read_text(encoding="utf-8")
                header = read_header(text, path, file.parent.name)
        except UnicodeDecodeError as error:
            reason = f"byte {error.start} is no UTF-8"
            return SkillProblem(path, 0, reason, "Save the file as UTF-8.")
        except OSError as error:
            return SkillProblem(path, 0, str(error.strerror), "Make the file readable.")
        self._known[str(file)] = _Entry(stamp, header)
        return header


def _stamp(path: str) -> Stamp | None:
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size, facts.st_ino


def _files(root: Path, watch: _Watch) -> list[Path]:
    """Every SKILL.md below a folder in a stable order; nothing below a skill's own folder."""
    found: list[Path] = []
    watch.see(root)
    for folder, folders, names in os.walk(root):
        depth = len(Path(folder).relative_to(root).parts)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in folders:
            watch.see(Path(folder, name))
        if FILE not in names:  # a link to nothing may come to lead to a skill
            watch.links |= any(Path(folder, name).is_symlink() for name in names)
        found += (Path(folder, name) for name in folders if _leads_out(Path(folder, name), root))
        if FILE in names and depth:
            found.append(Path(folder, FILE))
            folders.clear()
        elif depth >= DEPTH:
            folders.clear()
    for file in found:
        watch.see(file)
    return sorted(found)


def _leads_out(folder: Path, root: Path) -> bool:
    """Whether a folder is a link to a skill elsewhere: it is told of, not followed."""
    if not folder.is_symlink() or folder.resolve().is_relative_to(root.resolve()):
        return False
    return (folder / FILE).exists()


def _outside(file: Path, root: Path, path: str) -> SkillProblem | None:
    """The problem of what lies elsewhere: the agent, who sees the folder, could not read it."""
    try:
        inside = file.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError):  # a link to itself
        return SkillProblem(path, 0, "is a link to itself", "Put a plain file there.")
    if inside:
        return None
    return SkillProblem(path, 0, "is a link that leads out of the folder of skills", "Copy it.")


def _skill(header: Header, path: str, source: Origin) -> Skill:
    return Skill(
        name=header.name,
        description=header.description,
        path=path.removesuffix(f"/{FILE}"),
        allowed_tools=header.allowed_tools,
        source=source,
        warnings=header.warnings,
        license=header.license,
    )


def _clash(path: str, name: str, other: Skill) -> SkillProblem:
    reason = f"{name} is the name of {other.path} too, which comes first"
    return SkillProblem(path, 2, reason, "Give one of them another name.")
