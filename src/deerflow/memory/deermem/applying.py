"""Applies an extraction to the newest document: pure, and the same entry twice changes nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from deerflow.memory.deermem.extraction import Extraction, NewFact
from deerflow.memory.deermem.facts import fact_of, twin_of, with_fact
from deerflow.memory.deermem.words import normalised
from deerflow.memory.protocol import (
    HISTORY_SUMMARIES,
    MAX_FACT_CHARS,
    MAX_TAKEN,
    USER_SUMMARIES,
    Fact,
    MemoryDocument,
    Source,
    Summary,
)

GONE = "No longer true: "
GONE_DAYS = 90.0
"""Days for which it is remembered that something holds no more, when nothing took its place."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an extraction comes from.

    Attributes:
        entries: ids of the queue entries behind it.
        source: of new facts.
        at: UTC seconds of the last exchange.
    """

    entries: tuple[str, ...]
    source: Source
    at: float


def apply(
    document: MemoryDocument, extraction: Extraction, origin: Origin, *, max_facts: int
) -> tuple[MemoryDocument, str] | None:
    """The document with an extraction in it, and a line that says what changed.

    None when it changes nothing, or when the document has taken in these entries already.

    A known fact (by normalised content) is confirmed. A superseded one stays and points to what
    replaced it; when somebody else replaced it meanwhile, the newest of that line is replaced. An
    id that nobody knows changes nothing.

    Args:
        document: the newest.
        extraction: what the model made of the exchanges, perhaps over an older document.
        origin: of the exchanges.
        max_facts: current facts that are kept, see `facts.retired`.
    """
    if origin.entries and all(entry in document.taken for entry in origin.entries):
        return None
    work = _Work(document, origin, max_facts)
    for new in extraction.facts:
        work.add(new)
    for fact_id in extraction.confirmed:
        work.confirm(fact_id)
    for fact_id in extraction.contradicted:
        work.contradict(fact_id)
    work.summarise(extraction.summaries)
    if not work.said():
        return None
    taken = tuple(dict.fromkeys((*document.taken, *origin.entries)))[-MAX_TAKEN:]
    where = f" from thread {origin.source.thread}" if origin.source.thread else ""
    return work.document.with_(taken=taken), work.said() + where


class _Work:
    """A document while an extraction goes into it, with counts of what was done."""

    def __init__(self, document: MemoryDocument, origin: Origin, max_facts: int) -> None:
        self.document = document
        self._origin = origin
        self._max_facts = max_facts
        self._added: set[str] = set()
        self._confirmed: set[str] = set()
        self._superseded: set[str] = set()
        self._summaries = 0

    def said(self) -> str:
        """What changed, for people; "" when nothing did."""
        counts = (
            ("added", len(self._added), "fact", "facts"),
            ("confirmed", len(self._confirmed - self._added), "fact", "facts"),
            ("superseded", len(self._superseded), "fact", "facts"),
            ("updated", self._summaries, "summary", "summaries"),
        )
        return ", ".join(
            f"{verb} {number} {one if number == 1 else many}"
            for verb, number, one, many in counts
            if number
        )

    def add(self, new: NewFact) -> None:
        """Add or confirm, then point from each replaced fact to it and back."""
        at = self._origin.at
        replaced = list(dict.fromkeys(i for i in map(self._newest, new.supersedes) if i))
        twin = twin_of(self.document, new.content)
        fact = Fact(
            id=self._id_of(new.content),
            content=new.content,
            category=new.category,
            confidence=new.confidence,
            source=self._origin.source,
            created_at=at,
            last_confirmed=at,
            valid_days=new.valid_days,
        )
        self.document, kept = with_fact(self.document, fact, max_facts=self._max_facts)
        (self._confirmed if twin is not None else self._added).add(kept.id)
        for old in replaced:
            if old != kept.id:
                self._replace(old, kept.id)

    def confirm(self, fact_id: str) -> None:
        """Said again: it holds from now on."""
        fact = fact_of(self.document, fact_id)
        at = self._origin.at
        if fact is not None and not fact.superseded_by and fact.last_confirmed < at:
            self._put(fact.with_(last_confirmed=at))
            self._confirmed.add(fact_id)

    def contradict(self, fact_id: str) -> None:
        """Holds no more; without another fact in its place, that very thing is the new fact."""
        fact = fact_of(self.document, fact_id)
        if fact is None or fact.superseded_by or fact_id in self._added:
            return
        text = (GONE + fact.content)[:MAX_FACT_CHARS]
        self.add(NewFact(text, "correction", fact.confidence, GONE_DAYS, (fact_id,)))

    def summarise(self, texts: dict[str, str]) -> None:
        """Replace the summaries that read otherwise now."""
        user = self._layers(self.document.user, texts, USER_SUMMARIES)
        history = self._layers(self.document.history, texts, HISTORY_SUMMARIES)
        self.document = self.document.with_(user=user, history=history)

    def _layers(
        self, old: dict[str, Summary], texts: dict[str, str], names: Sequence[str]
    ) -> dict[str, Summary]:
        changed = {
            name: Summary(texts[name], self._origin.at)
            for name in names
            if name in texts and texts[name] != old.get(name, Summary()).text
        }
        self._summaries += len(changed)
        return {**old, **changed}

    def _replace(self, old: str, new: str) -> None:
        former, successor = fact_of(self.document, old), fact_of(self.document, new)
        if former is None or successor is None or former.superseded_by:
            return
        self._put(former.with_(superseded_by=new))
        if not successor.supersedes:
            self._put(successor.with_(supersedes=old))
        self._superseded.add(old)

    def _put(self, fact: Fact) -> None:
        facts = (fact if each.id == fact.id else each for each in self.document.facts)
        self.document = self.document.with_(facts=tuple(facts))

    def _newest(self, fact_id: str) -> str:
        """The current fact at the end of a line of replacements, "" when there is none."""
        seen: set[str] = set()
        while fact_id not in seen:
            seen.add(fact_id)
            fact = fact_of(self.document, fact_id)
            if fact is None or not fact.superseded_by:
                return fact_id if fact is not None else ""
            fact_id = fact.superseded_by
        return ""

    def _id_of(self, content: str) -> str:
        """An id that is the same whenever the same entries say the same."""
        salt = 0
        while True:
            text = "\n".join((*self._origin.entries, normalised(content), str(salt)))
            fact_id = f"fact_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
            if fact_of(self.document, fact_id) is None:
                return fact_id
            salt += 1
