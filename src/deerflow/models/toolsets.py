"""Keeps what was bound to a tool set, so that schemas are built and serialised once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")

LARGEST = 32
"""Tool sets kept; an agent uses one or two."""


class BoundTools(Generic[T]):
    """Same tool objects and same settings give the same bound thing; the oldest goes first."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Sequence[Any], T]] = {}

    def get(self, tools: Sequence[Any], settings: Mapping[str, Any], make: Callable[[], T]) -> T:
        """What `make` gave for these tools, compared by identity, and settings, by their repr."""
        key = repr(([id(tool) for tool in tools], sorted(settings.items())))
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= LARGEST:
                self._kept.pop(next(iter(self._kept)))
            # The tools are kept with it: an id is unique only while its object lives.
            found = self._kept[key] = (list(tools), make())
        return found[1]
