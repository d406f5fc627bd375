"""Memories in the process: for tests, and for users who want nothing on the disk."""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from deerflow.memory.deermem.facts import sealed
from deerflow.memory.deermem.ranking import ordered, relevance
from deerflow.memory.deermem.words import clean
from deerflow.memory.protocol import MAX_CHANGES, Change, Fact, MemoryDocument, Mutate


@dataclass(slots=True)
class _Kept:
    """A user's document, and for each change what was there before."""

    document: MemoryDocument = field(default_factory=MemoryDocument)
    former: list[tuple[Change, MemoryDocument]] = field(
        default_factory=list[tuple[Change, MemoryDocument]]
    )


class InMemoryStorage:
    """A `MemoryStorage` that ends with the process.

    Args:
        now: the clock, UTC seconds.
    """

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._users: dict[str, _Kept] = {}

    async def load(self, user_id: str) -> MemoryDocument:
        """See `MemoryStorage.load`."""
        kept = self._users.get(user_id)
        return kept.document if kept is not None else MemoryDocument()

    async def update(self, user_id: str, mutate: Mutate) -> MemoryDocument:
        """See `MemoryStorage.update`."""
        former = await self.load(user_id)
        made = mutate(former)
        if made is None:
            return former
        document = sealed(former, made[0], self._now())
        kept = self._users.setdefault(user_id, _Kept())
        change = Change(document.revision, document.updated_at, clean(made[1]))
        kept.former = [*kept.former, (change, former)][-MAX_CHANGES:]
        kept.document = document
        return document

    async def changes(self, user_id: str, *, limit: int = 50) -> builtins.list[Change]:
        """See `MemoryStorage.changes`."""
        kept = self._users.get(user_id, _Kept())
        return [change for change, _ in reversed(kept.former)][:limit]

    async def undo(self, user_id: str) -> Change | None:
        """See `MemoryStorage.undo`."""
        kept = self._users.get(user_id)
        if kept is None or not kept.former:
            return None
        change, former = kept.former.pop()
        restored = replace(former, taken=kept.document.taken)
        kept.document = sealed(kept.document, restored, self._now())
        return change

    async def search(
        self, user_id: str, query: str, *, limit: int = 15
    ) -> builtins.list[tuple[Fact, float]]:
        """See `MemoryStorage.search`."""
        current = (await self.load(user_id)).current
        scores = relevance(query, current)
        hits = ordered((fact for fact in current if fact.id in scores), scores)
        return [(fact, scores[fact.id]) for fact in hits[:limit]]

    async def delete(self, user_id: str) -> bool:
        """See `MemoryStorage.delete`."""
        return self._users.pop(user_id, None) is not None

    async def close(self) -> None:
        """Nothing is open."""
