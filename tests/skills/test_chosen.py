"""Which skills are offered: by the file, and by each user's choice."""

from __future__ import annotations

from typing import Any

import pytest

from deerflow.errors import NotFoundError
from deerflow.skills.chosen import KEPT_SECONDS, ChosenSkills
from deerflow.skills.inmemory import InMemorySkills
from deerflow.skills.protocol import Skill

SKILLS = InMemorySkills([(Skill(name, "Does it."), "Do it.") for name in ("one", "two")])


class Choices:
    """Preferences of users, a clock, and how often they were asked for."""

    def __init__(self) -> None:
        self.of: dict[str, dict[str, Any]] = {}
        self.now = 0.0
        self.asked = 0

    async def __call__(self, user_id: str) -> dict[str, Any]:
        self.asked += 1
        return dict(self.of.get(user_id, {}))

    def store(self, **enabled: bool) -> ChosenSkills:
        return ChosenSkills(SKILLS, enabled, self, now=lambda: self.now)


async def names(store: ChosenSkills, user_id: str = "ann") -> list[str]:
    return [skill.name for skill in (await store.list(user_id)).skills]


async def test_what_the_file_switches_off_is_not_offered() -> None:
    store = Choices().store(two=False)
    assert await names(store) == ["one"]
    with pytest.raises(NotFoundError, match="no skill 'two'"):
        await store.load("ann", "two")
    assert (await store.load("ann", "one"))[1] == "Do it."


async def test_a_users_choice_counts_more_and_for_them_alone() -> None:
    choices = Choices()
    choices.of["ann"] = {"skill:one": False, "skill:two": True, "colour": "red"}
    store = choices.store(two=False)
    assert await names(store) == ["two"]
    assert await names(store, "bob") == ["one"]
    found, problems = await store.all("ann")
    assert [(skill.name, on) for skill, on in found] == [("one", False), ("two", True)]
    assert problems == ()


async def test_choices_are_asked_for_once_in_a_while() -> None:
    choices = Choices()
    store = choices.store()
    assert await names(store) == ["one", "two"]
    choices.of["ann"] = {"skill:one": False}
    assert await names(store) == ["one", "two"]
    assert choices.asked == 1
    choices.now += KEPT_SECONDS
    assert await names(store) == ["two"]


async def test_a_choice_that_was_made_here_counts_at_once() -> None:
    choices = Choices()
    store = choices.store()
    assert await names(store) == ["one", "two"]
    choices.of["ann"] = {"skill:one": False}
    store.forget("ann")
    assert await names(store) == ["two"]


async def test_without_skills_nobody_is_asked() -> None:
    choices = Choices()
    store = ChosenSkills(InMemorySkills(), {}, choices)
    assert await names(store) == []
    assert choices.asked == 0
