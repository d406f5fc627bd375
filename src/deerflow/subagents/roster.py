"""The kinds of child that a lead may delegate to: built-in, configured, and handed in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deerflow.config.schema import SubagentsConfig


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
    "Research, analysis and work on files that takes several steps.",
)
BASH = SubagentSpec(
    "bash",
    "Running commands, scripts, builds and tests where only the outcome matters.",
    tools=("bash", "python", "read_file", "write_file", "ls", "glob", "grep"),
)
BUILT_IN = (GENERAL, BASH)


class Roster:
    """Kinds of child by name; the configuration changes built-in ones and adds its own.

    Args:
        config: section `subagents`.
        further: kinds that the caller hands in; they come first.
    """

    def __init__(self, config: SubagentsConfig, further: Sequence[SubagentSpec] = ()) -> None:
        self._kinds: Mapping[str, SubagentSpec] = {
            spec.name: spec for spec in (*BUILT_IN, *further)
        }

    @property
    def kinds(self) -> tuple[SubagentSpec, ...]:
        """All kinds in order."""
        return tuple(self._kinds.values())

    def get(self, name: str) -> SubagentSpec | None:
        """A kind by name, None when there is none."""
        return self._kinds.get(name)
