"""A memory that forgets: for those who want none."""

from __future__ import annotations

import builtins
from typing import Any

from deerflow.errors import NotFoundError, UsageError
from deerflow.memory.deermem.document import to_json
from deerflow.memory.protocol import (
    Change,
    Exchange,
    Fact,
    FlushReport,
    ImportReport,
    MemoryDocument,
    MemoryManager,
    Source,
)

_CURE = "Set memory.manager_class to deermem."


class NoopMemoryManager(MemoryManager):
    """Remembers nothing and says so to whoever asks it to."""

    async def context(self, user_id: str, request: str) -> str:
        """Nothing to show."""
        del user_id, request
        return ""

    async def queue(self, user_id: str, thread_key: str, exchange: Exchange) -> str:
        """Nothing is queued."""
        del user_id, thread_key, exchange
        return ""

    async def flush(
        self, *, user_id: str | None = None, seconds: float, force: bool = True
    ) -> FlushReport:
        """Nothing waits."""
        del user_id, seconds, force
        return FlushReport()

    async def pending(self, user_id: str | None = None) -> int:
        """Nothing waits."""
        del user_id
        return 0

    async def load(self, user_id: str) -> MemoryDocument:
        """An empty memory."""
        del user_id
        return MemoryDocument()

    async def search(self, user_id: str, query: str, *, limit: int = 15) -> builtins.list[Fact]:
        """Nothing is found."""
        del user_id, query, limit
        return []

    async def add(
        self,
        user_id: str,
        content: str,
        *,
        category: str = "context",
        confidence: float = 1.0,
        source: Source | None = None,
    ) -> Fact:
        """Refuse, rather than forget in silence.

        Raises:
            UsageError: always.
        """
        del user_id, content, category, confidence, source
        raise UsageError("Nothing is remembered here.", cure=_CURE)

    async def change(self, user_id: str, fact_id: str, **fields: Any) -> Fact:
        """There is no such fact.

        Raises:
            NotFoundError: always.
        """
        del user_id, fields
        raise _no_fact(fact_id)

    async def forget(self, user_id: str, fact_id: str) -> Fact:
        """There is no such fact.

        Raises:
            NotFoundError: always.
        """
        del user_id
        raise _no_fact(fact_id)

    async def undo(self, user_id: str) -> Change | None:
        """Nothing to undo."""
        del user_id
        return None

    async def export(self, user_id: str) -> dict[str, Any]:
        """An empty memory."""
        del user_id
        raw = to_json(MemoryDocument())
        return {key: value for key, value in raw.items() if key not in ("revision", "taken")}

    async def take_in(self, user_id: str, raw: Any) -> ImportReport:
        """Refuse, rather than forget in silence.

        Raises:
            UsageError: always.
        """
        del user_id, raw
        raise UsageError("Nothing is remembered here.", cure=_CURE)

    async def clear(self, user_id: str) -> bool:
        """Nothing to forget."""
        del user_id
        return False

    async def start(self) -> None:
        """Nothing works in the background."""

    async def close(self) -> None:
        """Nothing is open."""


def _no_fact(fact_id: str) -> NotFoundError:
    return NotFoundError(f"There is no fact {fact_id[:100]!r}: nothing is remembered.", cure=_CURE)
