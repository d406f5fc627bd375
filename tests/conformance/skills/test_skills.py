"""What every store of skills does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from deerflow.errors import NotFoundError
from deerflow.skills.chosen import ChosenSkills
from deerflow.skills.folder import FolderSkills
from deerflow.skills.inmemory import InMemorySkills
from deerflow.skills.protocol import Skill, SkillStore

ALPHA = Skill("alpha", "Counts deer.", "/mnt/skills/public/alpha", ("bash", "read_file"))
BETA = Skill("beta", "Writes reports.", "/mnt/skills/public/beta")
TEXT = "First look.\n\nThen count.\n"

Make = Callable[[Path], SkillStore]


def in_memory(root: Path) -> SkillStore:
    del root
    return InMemorySkills([(BETA, TEXT), (ALPHA, TEXT)])


def in_folders(root: Path) -> SkillStore:
    for skill in (ALPHA, BETA):
        folder = root / skill.name
        folder.mkdir()
        tools = f"allowed-tools: {', '.join(skill.allowed_tools)}\n" if skill.allowed_tools else ""
        header = f"---\nname: {skill.name}\ndescription: {skill.description}\n{tools}---\n"
        (folder / "SKILL.md").write_text(header + TEXT)
    return FolderSkills(root, lambda user: None)


def all_chosen(root: Path) -> SkillStore:
    async def nothing(user_id: str) -> dict[str, bool]:
        return {}

    return ChosenSkills(in_folders(root), {}, nothing)


@pytest.fixture(params=[in_memory, in_folders, all_chosen])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SkillStore:
    make: Make = request.param
    return make(tmp_path)


async def test_skills_are_listed_by_name(store: SkillStore) -> None:
    assert isinstance(store, SkillStore)
    listing = await store.list("ann")
    assert listing.skills == (ALPHA, BETA)
    assert listing.problems == ()


async def test_a_skill_is_loaded_with_its_text(store: SkillStore) -> None:
    skill, text = await store.load("ann", "alpha")
    assert skill == ALPHA
    assert text.strip() == TEXT.strip()


async def test_an_unknown_skill_names_the_nearest(store: SkillStore) -> None:
    with pytest.raises(NotFoundError, match=r"no skill 'alpa'.*alpha"):
        await store.load("ann", "alpa")
