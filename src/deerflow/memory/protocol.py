"""The seam of memory: what is remembered of a user, who keeps it, and how it is written."""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, runtime_checkable

Category = Literal["preference", "knowledge", "context", "behavior", "goal", "correction"]
CATEGORIES: tuple[Category, ...] = (
    "preference",
    "knowledge",
    "context",
    "behavior",
    "goal",
    "correction",
)

USER_SUMMARIES = ("workContext", "personalContext", "topOfMind")
HISTORY_SUMMARIES = ("recentMonths", "earlierContext", "longTermBackground")

MAX_FACT_CHARS = 2_000
"""Longer facts are refused: a fact is a sentence, not a document."""


RETIRED = "retired"
"""`superseded_by` of a fact that made room when there were more than `max_facts`."""

MAX_CHANGES = 50
"""Changes that can be undone."""

MAX_TAKEN = 1_000
"""Ids of queue entries that a document remembers."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a fact came from: the client's thread id and a message id, "" when unknown."""

    thread: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """One remembered fact.

    Attributes:
        id: unique per user.
        content: a sentence, at most MAX_FACT_CHARS characters.
        category: one of CATEGORIES.
        confidence: 0 to 1.
        source: where it came from.
        created_at: UTC seconds.
        last_confirmed: UTC seconds of the last exchange that said it (again).
        valid_days: days after last_confirmed for which it holds, None for ever.
        supersedes: id of the fact that it replaced, or "".
        superseded_by: id of the fact that replaced it, RETIRED when it had to make room, or "";
            a fact with something in here is history, never shown to the model.
    """

    id: str
    content: str
    category: Category = "context"
    confidence: float = 1.0
    source: Source = field(default_factory=Source)
    created_at: float = 0.0
    last_confirmed: float = 0.0
    valid_days: float | None = None
    supersedes: str = ""
    superseded_by: str = ""

    def with_(self, **changes: Any) -> Fact:
        """A copy with some fields changed."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Summary:
    """A layer of prose: text and when it was written (UTC seconds)."""

    text: str = ""
    updated_at: float = 0.0


@dataclass(frozen=True, slots=True)
class MemoryDocument:
    """Everything remembered of one user.

    Attributes:
        user: USER_SUMMARIES → summary.
        history: HISTORY_SUMMARIES → summary.
        facts: in order of creation, superseded ones included.
        updated_at: UTC seconds of the last change, 0 for an empty memory.
        revision: counts changes, from 0.
        taken: ids of queue entries whose facts are in here (the latest 1,000), so that an entry
            which is delivered twice adds nothing.
    """

    user: dict[str, Summary] = field(default_factory=dict[str, Summary])
    history: dict[str, Summary] = field(default_factory=dict[str, Summary])
    facts: tuple[Fact, ...] = ()
    updated_at: float = 0.0
    revision: int = 0
    taken: tuple[str, ...] = ()

    def with_(self, **changes: Any) -> MemoryDocument:
        """A copy with some fields changed."""
        return replace(self, **changes)

    @property
    def current(self) -> tuple[Fact, ...]:
        """Facts that hold: not superseded."""
        return tuple(fact for fact in self.facts if not fact.superseded_by)


@dataclass(frozen=True, slots=True)
class Exchange:
    """What the user said and what was finally answered; no tool noise.

    Attributes:
        user: the user's words.
        answer: the final visible answer.
        message: id of the user's message.
        at: UTC seconds.
        thread: the client's thread id.
    """

    user: str
    answer: str
    message: str = ""
    at: float = 0.0
    thread: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As queued."""
        return {"user": self.user, "answer": self.answer, "message": self.message, "at": self.at}


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the history of changes, newest last in lists.

    Attributes:
        revision: the revision that it made.
        at: UTC seconds.
        what: a line for people ("added 2 facts from thread t1").
    """

    revision: int
    at: float
    what: str


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import took: facts and summaries taken, and a line per value that was left out."""

    facts: int = 0
    summaries: int = 0
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FlushReport:
    """What a drain did: entries done, entries left (they stay queued), whether time ran out."""

    done: int = 0
    left: int = 0
    timed_out: bool = False


Ask = Callable[[str, str], Awaitable[str]]
"""The updater's own model: `await ask(system, user)` gives the visible text of its reply."""

AskFor = Callable[[str], Ask]
"""The `Ask` of a user, so that what extraction costs is counted as theirs."""

Mutate = Callable[[MemoryDocument], tuple[MemoryDocument, str] | None]
"""Makes the new document and a line that says what changed; None changes nothing. Runs under the
lock of the user, perhaps more than once; it must be pure."""


@runtime_checkable
class MemoryStorage(Protocol):
    """Where memories are kept; one document per user, changed one at a time across processes."""

    async def load(self, user_id: str) -> MemoryDocument:
        """The document, empty for a new user.

        Raises:
            StorageError: what is stored cannot be read; the message names the place and the cure,
                nothing is overwritten.
        """
        ...

    async def update(self, user_id: str, mutate: Mutate) -> MemoryDocument:
        """Apply a change to the newest document and keep the former one for undo.

        Durable when it returns.

        Raises:
            StorageError: see `load`; or the disk or database failed, and nothing was changed.
        """
        ...

    async def changes(self, user_id: str, *, limit: int = 50) -> builtins.list[Change]:
        """Changes that can be undone, newest first."""
        ...

    async def undo(self, user_id: str) -> Change | None:
        """Take the newest change back (as a new revision; undoing twice goes two changes back).

        `taken` stays, so that an exchange whose facts were taken back is not extracted again. With
        a damaged document the newest kept copy takes its place, and nothing of the damaged one is
        thrown away. None when there is nothing to undo.
        """
        ...

    async def search(
        self, user_id: str, query: str, *, limit: int = 15
    ) -> builtins.list[tuple[Fact, float]]:
        """Current facts that share words with the query, most relevant first, with a score > 0."""
        ...

    async def delete(self, user_id: str) -> bool:
        """Forget everything, history included; whether there was anything."""
        ...

    async def close(self) -> None:
        """Release what is open."""
        ...


@runtime_checkable
class UpdateQueue(Protocol):
    """The writing side of a memory: takes exchanges and works them off."""

    async def put(self, user_id: str, thread_key: str, exchange: Exchange) -> str:
        """See `MemoryManager.queue`."""
        ...

    async def flush(
        self, *, user_id: str | None = None, seconds: float, force: bool = True
    ) -> FlushReport:
        """See `MemoryManager.flush`."""
        ...

    async def pending(self, user_id: str | None = None) -> int:
        """Exchanges that wait, of one user or of all."""
        ...

    async def discard(self, user_id: str) -> int:
        """Drop what waits of a user; how many."""
        ...

    async def start(self) -> None:
        """See `MemoryManager.start`."""
        ...

    async def close(self) -> None:
        """Stop the background work; what waits stays queued."""
        ...


class MemoryManager(ABC):
    """All that the harness asks of a memory. `DeerMem` is ours; `NoopMemoryManager` forgets."""

    @abstractmethod
    async def context(self, user_id: str, request: str) -> str:
        """What to show the model for a request, "" for nothing.

        Summaries and at most 15 facts within the token budget, HTML-escaped: text for inside
        `<memory>`. A damaged memory gives "" here; reading it by name says what is wrong.
        """

    @abstractmethod
    async def queue(self, user_id: str, thread_key: str, exchange: Exchange) -> str:
        """Queue an exchange for extraction, in order with the step's other writes.

        Durable with the end of the run; the same message twice is queued once.

        Returns:
            The id of the entry, "" when nothing was queued: chit-chat, or nothing extracts here.
        """

    @abstractmethod
    async def flush(
        self, *, user_id: str | None = None, seconds: float, force: bool = True
    ) -> FlushReport:
        """Work off queued exchanges, of one user or of all, for at most so many seconds.

        Args:
            user_id: only this user's.
            seconds: then what is left stays queued.
            force: also what is not due yet (the debounce is skipped).
        """

    @abstractmethod
    async def pending(self, user_id: str | None = None) -> int:
        """Exchanges that wait for extraction, of one user or of all."""

    @abstractmethod
    async def load(self, user_id: str) -> MemoryDocument:
        """Everything remembered. Raises StorageError when it is damaged."""

    @abstractmethod
    async def search(self, user_id: str, query: str, *, limit: int = 15) -> builtins.list[Fact]:
        """Current facts, most relevant first; without a query the newest."""

    @abstractmethod
    async def add(
        self,
        user_id: str,
        content: str,
        *,
        category: str = "context",
        confidence: float = 1.0,
        source: Source | None = None,
    ) -> Fact:
        """Remember a fact; a known one (by normalised content) is confirmed instead.

        Raises:
            UsageError: empty or too long content, unknown category, confidence outside 0–1.
        """

    @abstractmethod
    async def change(self, user_id: str, fact_id: str, **fields: Any) -> Fact:
        """Change content, category or confidence: the old fact is superseded, never lost.

        Args:
            user_id: whose.
            fact_id: of a current fact.
            fields: `content`, `category`, `confidence`, and `source` for where the change came
                from; what is left out stays.

        Raises:
            NotFoundError: no such fact.
            UsageError: see `add`.
        """

    @abstractmethod
    async def forget(self, user_id: str, fact_id: str) -> Fact:
        """Remove a fact (undo brings it back). Raises NotFoundError."""

    @abstractmethod
    async def undo(self, user_id: str) -> Change | None:
        """Take the newest change back; None when there is nothing to undo."""

    @abstractmethod
    async def export(self, user_id: str) -> dict[str, Any]:
        """The memory in the shape of a 2.x memory.json, with our further fields."""

    @abstractmethod
    async def take_in(self, user_id: str, raw: Any) -> ImportReport:
        """Import what `export` gave or a 2.x memory.json, beside what is there; one change.

        Raises:
            UsageError: not such a document.
        """

    @abstractmethod
    async def clear(self, user_id: str) -> bool:
        """Forget everything of a user, queue included."""

    @abstractmethod
    async def start(self) -> None:
        """Begin to work off due entries in the background (a long-lived process does)."""

    @abstractmethod
    async def close(self) -> None:
        """Stop the background work and release what is open; nothing is lost."""
