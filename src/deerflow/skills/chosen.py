"""Skills as switched on and off: by extensions_config.json for all, and by each user."""

from __future__ import annotations

import builtins
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from deerflow.skills.listing import no_skill
from deerflow.skills.protocol import Skill, SkillListing, SkillProblem, SkillStore

CHOICE = "skill:"
"""Begins the name of the preference that says whether a user wants a skill (a truth value)."""

Preferences = Callable[[str], Awaitable[Mapping[str, Any]]]
"""All preferences of a user by name."""
KEPT_SECONDS = 2.0
"""For so long a choice that was made in another process may go unnoticed; runs ask less often."""
MOST_USERS = 1_000


class ChosenSkills:
    """A store without what is switched off; a user's own choice counts more than the file's.

    Args:
        store: all skills.
        enabled: name → whether it is offered, of the file; missing = yes.
        preferences: of users, see CHOICE.
        now: a clock in seconds.
    """

    def __init__(
        self,
        store: SkillStore,
        enabled: Mapping[str, bool],
        preferences: Preferences,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._enabled = enabled
        self._preferences = preferences
        self._now = now
        self._known: dict[str, tuple[float, Mapping[str, Any]]] = {}

    async def list(self, user_id: str) -> SkillListing:
        """See SkillStore."""
        found = await self._store.list(user_id)
        if not found.skills:
            return found
        on = await self._switches(user_id)
        skills = tuple(each for each in found.skills if on(each.name))
        return found if len(skills) == len(found.skills) else replace(found, skills=skills)

    async def load(self, user_id: str, name: str) -> tuple[Skill, str]:
        """See SkillStore."""
        if not (await self._switches(user_id))(name):
            raise no_skill(name, await self.list(user_id))
        return await self._store.load(user_id, name)

    async def all(
        self, user_id: str
    ) -> tuple[builtins.list[tuple[Skill, bool]], tuple[SkillProblem, ...]]:
        """Every skill of a user by name and whether it is offered; and what is not loaded."""
        self.forget(user_id)
        found = await self._store.list(user_id)
        on = await self._switches(user_id)
        return [(each, on(each.name)) for each in found.skills], found.problems

    def forget(self, user_id: str) -> None:
        """A user has chosen anew: ask for the choices at once."""
        self._known.pop(user_id, None)

    async def _switches(self, user_id: str) -> Callable[[str], bool]:
        chosen = await self._choices(user_id)

        def on(name: str) -> bool:
            choice = chosen.get(f"{CHOICE}{name}")
            return choice if isinstance(choice, bool) else self._enabled.get(name, True)

        return on

    async def _choices(self, user_id: str) -> Mapping[str, Any]:
        now = self._now()
        known = self._known.get(user_id)
        if known is not None and now - known[0] < KEPT_SECONDS:
            return known[1]
        found = await self._preferences(user_id)
        if len(self._known) >= MOST_USERS:
            self._known.clear()
        self._known[user_id] = (now, found)
        return found
