"""The seam of skills: named instructions for special kinds of work, loaded when they are needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill; `Skill("name")` alone refers to an installed one.

    Attributes:
        name: lower-case words joined by hyphens.
        description: when it is of use, one or two sentences.
        path: virtual folder that the agent sees, e.g. /mnt/skills/public/deep-research.
        allowed_tools: tools that may be called while it is active, None for all.
        source: who it belongs to.
        warnings: what was mended in its file, for people.
        license: as its file names it, or "".
    """

    name: str
    description: str = ""
    path: str = ""
    allowed_tools: tuple[str, ...] | None = None
    source: Literal["public", "custom"] = "public"
    warnings: tuple[str, ...] = ()
    license: str = ""


@dataclass(frozen=True, slots=True)
class SkillProblem:
    """A file that could not be loaded: virtual path, line (from 1, 0 = none), reason, cure."""

    path: str
    line: int
    reason: str
    cure: str


@dataclass(frozen=True, slots=True)
class SkillListing:
    """What a user has: usable skills by name, and what is not loaded with its reason."""

    skills: tuple[Skill, ...] = ()
    problems: tuple[SkillProblem, ...] = field(default=())


@runtime_checkable
class SkillStore(Protocol):
    """Where skills are kept. A user's own skill comes before a public one of the same name."""

    async def list(self, user_id: str) -> SkillListing:
        """Skills of a user, sorted by name; disabled ones are left out."""
        ...

    async def load(self, user_id: str, name: str) -> tuple[Skill, str]:
        """A skill and the text of its SKILL.md without the header.

        Raises:
            NotFoundError: no such skill, with the nearest name.
        """
        ...
