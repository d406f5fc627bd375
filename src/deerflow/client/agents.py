"""The user's custom agents and skills."""

from __future__ import annotations

from deerflow.client.conversations import Desk
from deerflow.lead.profiles import LeadProfile
from deerflow.skills.protocol import SkillListing


class Agents:
    """Custom agents of the user."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def list(self) -> list[str]:
        """Their names, sorted."""
        return await self._desk.harness.profiles.list(self._desk.user_id)

    async def get(self, name: str) -> LeadProfile:
        """One of them.

        Raises:
            NotFoundError: the user has none of this name.
            ConfigError: its files cannot be used.
        """
        return await self._desk.harness.profiles.get(self._desk.user_id, name)

    async def save(self, profile: LeadProfile) -> None:
        """Write or replace one. Raises UsageError for a name or soul that cannot be kept."""
        await self._desk.harness.profiles.save(self._desk.user_id, profile)


class Skills:
    """Skills that the user's runs are offered."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def list(self) -> SkillListing:
        """Usable ones by name, and what is not loaded with its reason."""
        store = self._desk.harness.skills
        return SkillListing() if store is None else await store.list(self._desk.user_id)
