"""Skills in memory: for tests and for callers that bring their own."""

from __future__ import annotations

from collections.abc import Iterable

from deerflow.skills.listing import no_skill
from deerflow.skills.protocol import Skill, SkillListing


class InMemorySkills:
    """A fixed set of skills, the same for every user.

    Args:
        skills: each with the text of its instructions.
    """

    def __init__(self, skills: Iterable[tuple[Skill, str]] = ()) -> None:
        self._skills = {skill.name: (skill, text) for skill, text in skills}

    async def list(self, user_id: str) -> SkillListing:
        """See SkillStore."""
        return SkillListing(tuple(self._skills[name][0] for name in sorted(self._skills)))

    async def load(self, user_id: str, name: str) -> tuple[Skill, str]:
        """See SkillStore."""
        if name not in self._skills:
            raise no_skill(name, await self.list(user_id))
        return self._skills[name]
