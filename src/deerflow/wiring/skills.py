"""Names the stores of skills, and what people do with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from deerflow.config.load import LoadedConfig
from deerflow.errors import ConflictError
from deerflow.plugins import load_skill_store
from deerflow.skills.chosen import CHOICE, ChosenSkills
from deerflow.skills.folder import FolderSkills
from deerflow.skills.listing import no_skill
from deerflow.skills.own import OwnSkills
from deerflow.skills.protocol import Skill, SkillListing, SkillStore
from deerflow.storage.protocol import Documents
from deerflow.wiring.stores import thread_folders, user_folder

if TYPE_CHECKING:
    from deerflow.wiring.harness import Harness


def make_skills(loaded: LoadedConfig, documents: Documents) -> ChosenSkills:
    """The store of skills that `skills.use` names, with what the file and each user switched off.

    Args:
        loaded: the configuration.
        documents: where users' choices are.
    """
    use = loaded.config.skills.use
    folders = thread_folders(loaded)
    store: SkillStore = (
        load_skill_store(use)
        if use != "local"
        else FolderSkills(
            folders("", "").skills_public, lambda user: folders(user, "").skills_custom
        )
    )
    enabled = {name: state.enabled for name, state in loaded.extensions.skills.items()}
    return ChosenSkills(store, enabled, documents.preferences)


def every_skill(harness: Harness) -> ChosenSkills:
    """The store that knows what is switched off as well."""
    store = harness.skills
    assert isinstance(store, ChosenSkills)  # noqa: S101  (this module makes no other)
    return store


async def find_skill(harness: Harness, user_id: str, name: str) -> tuple[Skill, bool]:
    """A skill, and whether the user's runs are offered it.

    Raises:
        NotFoundError: there is none; names what is near.
    """
    found, problems = await every_skill(harness).all(user_id)
    for skill, enabled in found:
        if skill.name == name:
            return skill, enabled
    raise no_skill(name, SkillListing(tuple(skill for skill, _ in found), problems))


async def choose_skill(harness: Harness, user_id: str, name: str, enabled: bool | None) -> None:
    """Switch a skill on or off for a user; None takes the choice back."""
    await harness.storage.documents.prefer(user_id, f"{CHOICE}{name}", enabled)
    every_skill(harness).forget(user_id)


def own_skills(loaded: LoadedConfig) -> OwnSkills:
    """Users' own skills.

    Raises:
        ConflictError: `skills.use` names another store, in which they are edited.
    """
    if loaded.config.skills.use != "local":
        raise ConflictError("Skills are kept elsewhere (skills.use).", cure="Edit them there.")

    def folder(user_id: str) -> Path:
        return user_folder(loaded, user_id) / "skills"

    return OwnSkills(folder)
