"""The frameworks in which the same exam can be sat, each with a program and its packages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from deerflow.errors import UsageError

_HERE = Path(__file__).parent
SHARED = _HERE / "programs" / "proctor.py"
"""What all programs share."""
ALL = "all"
"""On the command line: every framework, one after the other."""


@dataclass(frozen=True, slots=True)
class Framework:
    """A framework other than ours.

    Attributes:
        name: on the command line, in results, of its folder.
        title: as its makers write it.
        way: how the design is built in it, in a few words.
    """

    name: str
    title: str
    way: str

    @property
    def program(self) -> Path:
        """The script that sits the exam."""
        return _HERE / "programs" / f"with_{self.name.replace('-', '_')}.py"

    @property
    def requirements(self) -> Path:
        """Every package of its environment, with its version."""
        return _HERE / "requirements" / f"{self.name}.txt"


FRAMEWORKS: Mapping[str, Framework] = MappingProxyType(
    {
        each.name: each
        for each in (
            Framework("langgraph", "LangGraph", "a graph with a conditional edge back"),
            Framework("openai-agents", "OpenAI Agents SDK", "agents with output types, a Runner"),
            Framework("google-adk", "Google ADK", "a LoopAgent with sessions, through LiteLLM"),
            Framework("crewai", "CrewAI", "a Flow with a router, each step a crew"),
        )
    }
)
"""By name, in the order of reports."""


def chosen(name: str) -> tuple[Framework, ...]:
    """The framework of a name, or every one for "all".

    Raises:
        UsageError: there is no such framework.
    """
    if name == ALL:
        return tuple(FRAMEWORKS.values())
    if name not in FRAMEWORKS:
        raise UsageError(
            f"There is no framework {name!r}.", cure=f"Take one of {', '.join((*FRAMEWORKS, ALL))}."
        )
    return (FRAMEWORKS[name],)
