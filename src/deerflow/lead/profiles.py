"""Who leads a run: the built-in agent, one that a caller describes, or a user's custom agent.

A custom agent is a folder `users/<user>/agents/<name>/` with a `SOUL.md` (what it is told in every
run) and an optional `config.yaml` (description, model, tools, skills, max_turns).
"""

from __future__ import annotations

import asyncio
import difflib
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from deerflow.config.section import Positive, Section
from deerflow.errors import ConfigError, NotFoundError, UsageError

SOUL = "SOUL.md"
SETTINGS = "config.yaml"
MAX_SOUL = 65_536
"""Characters of a SOUL.md: it is sent with every request."""

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62}[A-Za-z0-9])?")


ALWAYS = frozenset({"ask_clarification", "present_files", "task", "task_batch"})
"""Tools that an agent keeps whatever it names: to ask, to deliver, to delegate."""


@dataclass(frozen=True, slots=True)
class LeadProfile:
    """An agent that leads runs.

    Attributes:
        name: what it calls itself, "" for the built-in one.
        description: what it is for, for people.
        soul: what it is told in every run, or "".
        model: configured name, None for the default.
        tools: names it may use beside ALWAYS, None for all.
        skills: names it may use, None for all.
        max_turns: model turns of a run, None as configured.
    """

    name: str = ""
    description: str = ""
    soul: str = ""
    model: str | None = None
    tools: tuple[str, ...] | None = None
    skills: tuple[str, ...] | None = None
    max_turns: int | None = None

    def may_use(self, tool: str) -> bool:
        """Whether it is offered a tool."""
        return self.tools is None or tool in self.tools or tool in ALWAYS


BUILT_IN = LeadProfile()


class ProfileConfig(Section):
    """A custom agent's config.yaml."""

    name: str = Field(default="", description="Shown name.")
    description: str = Field(default="", description="What it is for.")
    model: str | None = Field(default=None, description="Configured model; null = the default.")
    tools: tuple[str, ...] | None = Field(default=None, description="Tools; null = all.")
    tool_groups: tuple[str, ...] | None = Field(default=None, description="Accepted.")
    skills: tuple[str, ...] | None = Field(default=None, description="Skills; null = all.")
    max_turns: Positive | None = Field(default=None, description="Model turns of a run.")
    model_settings: dict[str, Any] | None = Field(default=None, description="Accepted.")
    thinking_enabled: bool | None = Field(default=None, description="Accepted.")
    reasoning_effort: str | None = Field(default=None, description="Accepted.")


ACCEPTED = ("tool_groups", "model_settings", "thinking_enabled", "reasoning_effort")
"""Fields of a config.yaml that are kept for the clients that write them."""


class FolderProfiles:
    """Custom agents of users, in folders.

    Args:
        folder: the folder of a user's agents.
    """

    def __init__(self, folder: Callable[[str], Path]) -> None:
        self._folder = folder

    async def get(self, user_id: str, name: str) -> LeadProfile:
        """A user's agent.

        Raises:
            NotFoundError: there is none of this name, with the nearest one.
            ConfigError: its files cannot be used.
        """
        return await asyncio.to_thread(self._get, user_id, name)

    async def list(self, user_id: str) -> list[str]:
        """Names of a user's agents, sorted."""
        return await asyncio.to_thread(self._names, user_id)

    async def accepted(self, user_id: str, name: str) -> dict[str, Any]:
        """The fields ACCEPTED of an agent. Raises like `get`."""
        return await asyncio.to_thread(self._accepted, user_id, name)

    async def save(
        self, user_id: str, profile: LeadProfile, *, accepted: Mapping[str, Any] | None = None
    ) -> None:
        """Write or replace an agent: both files, each at once.

        Args:
            user_id: whose.
            profile: the agent.
            accepted: of the fields ACCEPTED; None keeps none of them.

        Raises:
            UsageError: its name or soul cannot be kept.
        """
        check_name(profile.name)
        if not _is_text(profile.soul) or not _is_text(profile.description):
            raise UsageError(
                f"The soul or description of {profile.name} is no text: it holds half a "
                "surrogate pair.",
                cure="Leave that sign away.",
            )
        if len(profile.soul) > MAX_SOUL:
            raise UsageError(
                f"The soul of {profile.name} has more than {MAX_SOUL} characters.",
                cure="Put what it needs now and then into a skill.",
            )
        await asyncio.to_thread(self._save, user_id, profile, accepted or {})

    async def delete(self, user_id: str, name: str) -> bool:
        """Remove an agent with its folder; False when the user has none of this name."""
        return await asyncio.to_thread(self._delete, user_id, name)

    def _names(self, user_id: str) -> list[str]:
        root = self._folder(user_id)
        if not root.is_dir():
            return []
        found = (each.parent.name for each in root.glob(f"*/{SOUL}") if each.is_file())
        return sorted(name for name in found if NAME.fullmatch(name))

    def _get(self, user_id: str, name: str) -> LeadProfile:
        folder = self._folder(user_id) / name
        soul = folder / SOUL
        if not NAME.fullmatch(name) or not soul.is_file():
            names = self._names(user_id)
            near = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
            listed = ", ".join(names) or "none"
            cure = f"Did you mean {near[0]!r}?" if near else f"Your agents: {listed}."
            raise NotFoundError(f"There is no agent {name!r}.", cure=cure)
        for file in (soul, folder / SETTINGS):
            _check_place(file, self._folder(user_id), name)
        try:
            with soul.open(encoding="utf-8-sig") as stream:
                text = stream.read(MAX_SOUL + 1)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError([f"agent {name}: {SOUL}: {error}"]) from error
        if len(text) > MAX_SOUL:
            raise ConfigError(
                [f"agent {name}: {SOUL}: more than {MAX_SOUL} characters; put what it needs now "
                 "and then into a skill"]
            )  # fmt: skip
        config = _settings(folder / SETTINGS, name)
        return LeadProfile(
            name=name,
            description=config.description,
            soul=text.strip(),
            model=config.model,
            tools=config.tools,
            skills=config.skills,
            max_turns=config.max_turns,
        )

    def _accepted(self, user_id: str, name: str) -> dict[str, Any]:
        self._get(user_id, name)
        config = _settings(self._folder(user_id) / name / SETTINGS, name)
        return {field: getattr(config, field) for field in ACCEPTED}

    def _delete(self, user_id: str, name: str) -> bool:
        if name not in self._names(user_id):
            return False
        folder = self._folder(user_id) / name
        if folder.is_symlink():
            folder.unlink()
        else:
            shutil.rmtree(folder)
        return True

    def _save(self, user_id: str, profile: LeadProfile, accepted: Mapping[str, Any]) -> None:
        folder = self._folder(user_id) / profile.name
        folder.mkdir(parents=True, exist_ok=True)
        fields = {
            "description": profile.description,
            "model": profile.model,
            "tools": None if profile.tools is None else list(profile.tools),
            "skills": None if profile.skills is None else list(profile.skills),
            "max_turns": profile.max_turns,
            **{field: accepted.get(field) for field in ACCEPTED},
        }
        kept = {key: value for key, value in fields.items() if value not in ("", None)}
        settings, soul = folder / f".{SETTINGS}.new", folder / f".{SOUL}.new"
        with settings.open("w", encoding="utf-8") as stream:
            cast("Any", YAML()).dump(kept, stream)
        soul.write_text(profile.soul, encoding="utf-8", newline="")
        settings.replace(folder / SETTINGS)
        soul.replace(folder / SOUL)


def check_name(name: str) -> None:
    """Refuse a name that is no folder's.

    Raises:
        UsageError: other signs than letters, digits, hyphens and underscores, or longer than 64.
    """
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name of an agent.",
            cure="Use up to 64 letters, digits, hyphens and underscores.",
        )


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_place(file: Path, root: Path, name: str) -> None:
    """Refuse a link out of the user's agents (what it says is sent to a model), and a pipe.

    Raises:
        ConfigError: it is one.
    """
    where = f"agent {name}: {file.name}"
    if not file.resolve().is_relative_to(root.resolve()):
        raise ConfigError([f"{where}: is a link that leads out of {root}; copy the file there"])
    if file.exists() and not file.is_file():
        raise ConfigError([f"{where}: is no regular file"])


def _settings(path: Path, name: str) -> ProfileConfig:
    if not path.exists():
        return ProfileConfig()
    where = f"agent {name}: {SETTINGS}"
    try:
        with path.open(encoding="utf-8") as stream:
            raw: Any = cast("Any", YAML(typ="safe", pure=True)).load(stream)
        return ProfileConfig.model_validate({} if raw is None else raw)
    except ValidationError as error:
        problems = [
            ": ".join(filter(None, (where, ".".join(map(str, each["loc"])), each["msg"])))
            for each in error.errors()
        ]
        raise ConfigError(problems) from error
    except (OSError, ValueError, YAMLError, RecursionError) as error:  # no UTF-8, a month 13
        raise ConfigError([f"{where}: {' '.join(str(error).split())}"]) from error
