"""What a reader of a stream asks for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from deerflow.errors import UsageError

MODES = (
    "values",
    "messages",
    "messages-tuple",
    "updates",
    "custom",
    "tools",
    "tasks",
    "events",
    "debug",
    "checkpoints",
)
"""Stream modes of the LangGraph protocol; all are served."""

THREAD_MODES = {
    "run_modes": ("values", "messages-tuple", "updates", "custom"),
    "lifecycle": (),
    "state_update": ("values",),
}
"""Modes of a stream that follows a whole thread → modes of each run in it."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Modes of one reader.

    Attributes:
        modes: names out of MODES.
        subgraphs: whether frames of children are sent too, as `mode|namespace`.
        label: short text that is the same for the same wishes; part of keys of the cache.
    """

    modes: frozenset[str]
    subgraphs: bool = False
    label: str = ""

    def __contains__(self, mode: str) -> bool:
        return mode in self.modes


def wanted(given: str | Iterable[str] | None, *, subgraphs: bool = False) -> Wanted:
    """Wishes as a client gave them; None or nothing means `values`.

    Raises:
        UsageError: an unknown mode.
    """
    names = [name for name in ([given] if isinstance(given, str) else given or ()) if name]
    for name in names:
        if name not in MODES:
            raise UsageError(f"Unknown stream mode {name!r}.", cure=f"Use: {', '.join(MODES)}.")
    return of_modes(names or ["values"], subgraphs=subgraphs)


def of_modes(names: Iterable[str], *, subgraphs: bool = False) -> Wanted:
    """Wishes of known modes, also none at all."""
    chosen = frozenset(names)
    label = "".join(str(MODES.index(name)) for name in sorted(chosen)) + ("s" if subgraphs else "")
    return Wanted(chosen, subgraphs, label)
