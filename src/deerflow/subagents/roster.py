"""The kinds of child that a lead may delegate to: built-in, configured, and handed in."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from deerflow.config.agents import CustomSubagentConfig, SubagentOverrideConfig, SubagentsConfig
from deerflow.errors import ConfigError

_INHERIT = "inherit"
"""What older files write for "the lead's model"."""


@dataclass(frozen=True, slots=True)
class SubagentSpec:
    """A kind of child.

    Attributes:
        name: what the lead calls it.
        description: when the lead should delegate to it.
        prompt: what it is told beside the general rules, or "".
        tools: names it may use; None = the lead's.
        disallowed_tools: names taken from it.
        skills: names it may use; None = all.
        model: configured name; None = the lead's.
        max_turns: model turns of a child.
        timeout_seconds: its clock, from its own start.
        max_attempts: attempts at a task before it counts as failed.
    """

    name: str
    description: str = ""
    prompt: str = ""
    tools: tuple[str, ...] | None = None
    disallowed_tools: tuple[str, ...] = ()
    skills: tuple[str, ...] | None = None
    model: str | None = None
    max_turns: int = 50
    timeout_seconds: float = 900.0
    max_attempts: int = 1

    def may_use(self, tool: str) -> bool:
        """Whether children of this kind are offered a tool."""
        return tool not in self.disallowed_tools and (self.tools is None or tool in self.tools)


GENERAL = SubagentSpec(
    "general-purpose",
    "Research, analysis, work on files of several steps.",
)
BASH = SubagentSpec(
    "bash",
    "Commands, builds and tests where the outcome is all that matters.",
    tools=("bash", "python", "read_file", "write_file", "ls", "glob", "grep"),
)
BUILT_IN = (GENERAL, BASH)


class Roster:
    """Kinds of child by name; the configuration changes built-in ones and adds its own.

    Args:
        config: section `subagents`.
        further: kinds that the caller hands in; they come first, and win over a name that is taken.
    """

    def __init__(self, config: SubagentsConfig, further: Sequence[SubagentSpec] = ()) -> None:
        built_in = [
            replace(spec, max_turns=config.max_turns, timeout_seconds=config.timeout_seconds)
            for spec in BUILT_IN
        ]
        custom = [_custom(name, own, built_in[0]) for name, own in config.custom_agents.items()]
        kinds = {spec.name: spec for spec in (*further, *built_in, *custom)}
        kinds |= {spec.name: spec for spec in further}
        for name, change in config.agents.items():
            if name in kinds:
                kinds[name] = _changed(kinds[name], change)
        self._kinds: Mapping[str, SubagentSpec] = kinds

    @property
    def kinds(self) -> tuple[SubagentSpec, ...]:
        """All kinds in order."""
        return tuple(self._kinds.values())

    def get(self, name: str) -> SubagentSpec | None:
        """A kind by name, None when there is none."""
        return self._kinds.get(name)

    def check(self, models: Collection[str], tools: Collection[str]) -> list[str]:
        """Look for names that do not exist, before any child is started.

        Args:
            models: configured names.
            tools: names of all tools that there are.

        Returns:
            A warning per kind with an unknown tool: a source of tools may be down today.

        Raises:
            ConfigError: a kind wants a model that does not exist.
        """
        wrong = [
            f"sub-agent {spec.name!r}: no model is called {spec.model!r}; "
            f"configured: {', '.join(models) or 'none'}"
            for spec in self.kinds
            if spec.model is not None and spec.model not in models
        ]
        if wrong:
            raise ConfigError(wrong)
        warnings: list[str] = []
        for spec in self.kinds:
            wanted = () if spec.tools == BASH.tools else spec.tools or ()
            missing = [n for n in (*wanted, *spec.disallowed_tools) if n not in tools]
            if missing:
                warnings.append(
                    f"sub-agent {spec.name!r} goes without {', '.join(missing)}: no such tool; "
                    f"there are {', '.join(sorted(tools))}"
                )
        return warnings


def _custom(name: str, own: CustomSubagentConfig, general: SubagentSpec) -> SubagentSpec:
    spec = replace(
        general,
        name=name,
        description=own.description,
        prompt=own.system_prompt,
        tools=own.tools,
        disallowed_tools=own.disallowed_tools,
    )
    return _changed(spec, own)


def _changed(spec: SubagentSpec, change: SubagentOverrideConfig) -> SubagentSpec:
    """The kind with what a section says about it; null keeps what was there."""
    model = spec.model if change.model is None else change.model
    return replace(
        spec,
        timeout_seconds=change.timeout_seconds or spec.timeout_seconds,
        max_turns=change.max_turns or spec.max_turns,
        model=None if model == _INHERIT else model,
        skills=spec.skills if change.skills is None else change.skills,
    )
