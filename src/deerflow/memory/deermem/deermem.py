"""`DeerMem`: the memory of the harness, made of a storage and a queue of exchanges."""

from __future__ import annotations

import asyncio
import builtins
import logging
import time
from collections.abc import Callable
from typing import Any

from deerflow.config.agents import MemoryBackendConfig
from deerflow.errors import NotFoundError, StorageError, UsageError
from deerflow.memory.deermem.document import Reading, from_json, parse, to_json
from deerflow.memory.deermem.facts import (
    checked_category,
    checked_confidence,
    checked_content,
    fact_of,
    new_id,
    twin_of,
    with_fact,
    without,
)
from deerflow.memory.deermem.importing import Incoming, merged
from deerflow.memory.deermem.ranking import newest
from deerflow.memory.deermem.render import Count, estimated, render
from deerflow.memory.protocol import (
    Change,
    Exchange,
    Fact,
    FlushReport,
    ImportReport,
    MemoryDocument,
    MemoryManager,
    MemoryStorage,
    Source,
    UpdateQueue,
)

logger = logging.getLogger(__name__)

Changed = tuple[MemoryDocument, str]

_CHECKS: dict[str, Callable[[Any], Any]] = {
    "content": checked_content,
    "category": checked_category,
    "confidence": checked_confidence,
}


class DeerMem(MemoryManager):
    """Layers of prose and single facts per user, readable, each change undoable.

    Args:
        storage: where memories are kept.
        queue: the writing side; None when nothing is to be extracted here.
        config: section `memory.backend_config`: max_facts, max_injection_tokens.
        count: tokens of a text.
        now: the clock, UTC seconds.
    """

    def __init__(
        self,
        storage: MemoryStorage,
        queue: UpdateQueue | None,
        config: MemoryBackendConfig,
        *,
        count: Count = estimated,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._storage = storage
        self._queue = queue
        self._config = config
        self._count = count
        self._now = now

    async def context(self, user_id: str, request: str) -> str:
        """See `MemoryManager.context`."""
        try:
            document = await self._storage.load(user_id)
        except StorageError as error:
            logger.warning("The run goes on without memory. %s", error)
            return ""
        return render(
            document,
            request,
            now=self._now(),
            max_tokens=self._config.max_injection_tokens,
            count=self._count,
        )

    async def queue(self, user_id: str, thread_key: str, exchange: Exchange) -> str:
        """See `MemoryManager.queue`."""
        if self._queue is None:
            return ""
        return await self._queue.put(user_id, thread_key, exchange)

    async def flush(
        self, *, user_id: str | None = None, seconds: float, force: bool = True
    ) -> FlushReport:
        """See `MemoryManager.flush`."""
        if self._queue is None:
            return FlushReport()
        return await self._queue.flush(user_id=user_id, seconds=seconds, force=force)

    async def pending(self, user_id: str | None = None) -> int:
        """See `MemoryManager.pending`."""
        return 0 if self._queue is None else await self._queue.pending(user_id)

    async def load(self, user_id: str) -> MemoryDocument:
        """See `MemoryManager.load`."""
        return await self._storage.load(user_id)

    async def search(self, user_id: str, query: str, *, limit: int = 15) -> builtins.list[Fact]:
        """See `MemoryManager.search`."""
        if not query.strip():
            return newest((await self._storage.load(user_id)).current)[:limit]
        return [fact for fact, _ in await self._storage.search(user_id, query, limit=limit)]

    async def add(
        self,
        user_id: str,
        content: str,
        *,
        category: str = "context",
        confidence: float = 1.0,
        source: Source | None = None,
    ) -> Fact:
        """See `MemoryManager.add`."""
        now = self._now()
        fact = Fact(
            id=new_id(),
            content=checked_content(content),
            category=checked_category(category),
            confidence=checked_confidence(confidence),
            source=source or Source(),
            created_at=now,
            last_confirmed=now,
        )

        def mutate(document: MemoryDocument) -> Changed:
            new, kept = with_fact(document, fact, max_facts=self._config.max_facts)
            verb = "added" if kept.id == fact.id else "confirmed"
            return new, f"{verb} {_quoted(kept)}"

        document = await self._storage.update(user_id, mutate)
        return twin_of(document, fact.content) or fact

    async def change(self, user_id: str, fact_id: str, **fields: Any) -> Fact:
        """See `MemoryManager.change`."""
        source: Source | None = fields.pop("source", None)
        if unknown := fields.keys() - _CHECKS.keys():
            raise UsageError(
                f"A fact has no field {', '.join(sorted(unknown))} to change.",
                cure=f"Change {', '.join(_CHECKS)}.",
            )
        wanted = {name: _CHECKS[name](value) for name, value in fields.items()}
        now, successor = self._now(), new_id()

        def mutate(document: MemoryDocument) -> Changed | None:
            old = _found(document, fact_id, current=True)
            if all(getattr(old, name) == value for name, value in wanted.items()):
                return None
            kept_source = old.source if old.content == wanted.get("content", old.content) else None
            fact = old.with_(
                id=successor,
                source=source or kept_source or Source(),
                created_at=now,
                last_confirmed=now,
                **wanted,
            )
            new, kept = with_fact(document, fact, replaces=old.id, max_facts=self._config.max_facts)
            return new, f"changed {_quoted(old)} to {_quoted(kept)}"

        document = await self._storage.update(user_id, mutate)
        old = _found(document, fact_id)
        return fact_of(document, old.superseded_by) or old

    async def forget(self, user_id: str, fact_id: str) -> Fact:
        """See `MemoryManager.forget`."""
        gone: builtins.list[Fact] = []

        def mutate(document: MemoryDocument) -> Changed:
            fact = _found(document, fact_id)
            gone.append(fact)
            return document.with_(facts=without(document.facts, fact_id)), f"forgot {fact_id}"

        await self._storage.update(user_id, mutate)
        return gone[-1]

    async def undo(self, user_id: str) -> Change | None:
        """See `MemoryManager.undo`."""
        return await self._storage.undo(user_id)

    async def export(self, user_id: str) -> dict[str, Any]:
        """See `MemoryManager.export`."""
        raw = to_json(await self._storage.load(user_id))
        return {key: value for key, value in raw.items() if key not in ("revision", "taken")}

    async def take_in(self, user_id: str, raw: Any) -> ImportReport:
        """See `MemoryManager.take_in`; `raw` may be the bytes of a file."""
        reading = await asyncio.to_thread(_read, raw)
        incoming = Incoming.of(reading.document, reading.left_out, self._now())
        reports: builtins.list[ImportReport] = []

        def mutate(document: MemoryDocument) -> Changed | None:
            new, report = merged(document, incoming, max_facts=self._config.max_facts)
            reports.append(report)
            if new == document:
                return None
            return new, f"imported {report.facts} facts and {report.summaries} summaries"

        await self._storage.update(user_id, mutate)
        return reports[-1]

    async def clear(self, user_id: str) -> bool:
        """See `MemoryManager.clear`."""
        waiting = 0 if self._queue is None else await self._queue.discard(user_id)
        return await self._storage.delete(user_id) or waiting > 0

    async def start(self) -> None:
        """See `MemoryManager.start`."""
        if self._queue is not None:
            await self._queue.start()

    async def close(self) -> None:
        """See `MemoryManager.close`."""
        try:
            if self._queue is not None:
                await self._queue.close()
        finally:
            await self._storage.close()


def _found(document: MemoryDocument, fact_id: str, *, current: bool = False) -> Fact:
    fact = fact_of(document, fact_id)
    if fact is None:
        raise NotFoundError(
            f"There is no fact {fact_id[:100]!r}.", cure="`deerflow memory show` lists them."
        )
    if current and fact.superseded_by:
        raise NotFoundError(
            f"The fact {fact_id!r} is history.",
            cure=f"Look at {fact.superseded_by!r}, which replaced it."
            if fact_of(document, fact.superseded_by)
            else "Add it again if it holds.",
        )
    return fact


def _quoted(fact: Fact) -> str:
    text = fact.content
    return f"“{text if len(text) <= 60 else f'{text[:60]}…'}”"


def _read(raw: Any) -> Reading:
    """A memory from JSON or from the bytes of a file.

    Raises:
        UsageError: there is none in it.
    """
    try:
        reading = from_json(parse(raw) if isinstance(raw, bytes) else raw)
    except ValueError as error:
        raise UsageError(
            f"The memory to import is no JSON: {error}.",
            cure="It may be cut off: export it again, or correct it. Nothing was changed.",
        ) from error
    if not reading.recognised:
        raise UsageError(
            f"{reading.left_out[0]}", cure="Give a memory.json, or what `export` wrote."
        )
    return reading
