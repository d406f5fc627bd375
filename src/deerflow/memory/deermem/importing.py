"""Takes another memory in beside what is there."""

from __future__ import annotations

from dataclasses import dataclass

from deerflow.memory.deermem.document import LAYERS
from deerflow.memory.deermem.facts import confirmed, fact_of, new_id, retired, twin_of
from deerflow.memory.deermem.words import normalised
from deerflow.memory.protocol import Fact, ImportReport, MemoryDocument, Summary


@dataclass(frozen=True, slots=True)
class Incoming:
    """A memory that was read, ready to be merged any number of times with the same outcome.

    Attributes:
        document: its facts have times, and ids that nobody else has in `spare`.
        left_out: a line per value that could not be read.
        spare: id of each fact → the id that it gets when its own is in use.
    """

    document: MemoryDocument
    left_out: tuple[str, ...]
    spare: dict[str, str]

    @classmethod
    def of(cls, document: MemoryDocument, left_out: tuple[str, ...], now: float) -> Incoming:
        """Prepare a memory; facts without a time were made now."""
        facts = tuple(
            fact.with_(created_at=fact.created_at or now, last_confirmed=fact.last_confirmed or now)
            for fact in document.facts
        )
        spare = {fact.id: new_id() for fact in facts}
        return cls(document.with_(facts=facts), left_out, spare)


def merged(
    document: MemoryDocument, incoming: Incoming, *, max_facts: int
) -> tuple[MemoryDocument, ImportReport]:
    """The document with another one in it, and what was taken.

    Known facts (by normalised content) are confirmed. A summary replaces an older one.
    """
    facts, added = _facts(document, incoming)
    lines = list(incoming.left_out)
    taken = 0
    for layer, _ in LAYERS:
        mine: dict[str, Summary] = dict(getattr(document, layer))
        theirs: dict[str, Summary] = getattr(incoming.document, layer)
        for name, summary in theirs.items():
            present = mine.get(name, Summary())
            if present.text == summary.text:
                continue
            if present.text and present.updated_at >= summary.updated_at:
                lines.append(f"{layer}.{name} is older than what is remembered")
                continue
            mine[name] = summary
            taken += 1
        document = document.with_(**{layer: mine})
    full = document.with_(facts=facts)
    fitting = retired(full, max_facts)
    surplus = len(full.current) - len(fitting.current)
    if surplus:
        lines.append(f"{surplus} facts became history: at most {max_facts} are current")
    return fitting, ImportReport(added, taken, tuple(lines))


def _facts(document: MemoryDocument, incoming: Incoming) -> tuple[tuple[Fact, ...], int]:
    facts = {fact.id: fact for fact in document.facts}
    names: dict[str, str] = {}
    new: list[Fact] = []
    said: dict[str, Fact] = {}  # of the other memory itself, which may say a thing twice
    for fact in incoming.document.facts:
        words = normalised(fact.content)
        if not fact.superseded_by and words in said:
            names[fact.id] = names[said[words].id]
            continue
        if not fact.superseded_by:
            said[words] = fact
        twin = _known(document, fact)
        if twin is not None:
            names[fact.id] = twin.id
            if not twin.superseded_by:
                facts[twin.id] = confirmed(facts[twin.id], fact)
            continue
        names[fact.id] = incoming.spare[fact.id] if fact.id in facts else fact.id
        new.append(fact)
    for fact in new:
        facts[names[fact.id]] = fact.with_(
            id=names[fact.id],
            supersedes=names.get(fact.supersedes, fact.supersedes),
            superseded_by=names.get(fact.superseded_by, fact.superseded_by),
        )
    return tuple(facts.values()), len(new)


def _known(document: MemoryDocument, fact: Fact) -> Fact | None:
    """The fact of the document that is this one: same id and content, or the same words.

    A fact of the history is known by its time as well.
    """
    same = fact_of(document, fact.id)
    if same is not None and same.content == fact.content:
        return same
    if not fact.superseded_by:
        return twin_of(document, fact.content)
    this = (fact.content, fact.created_at)
    return next(
        (f for f in document.facts if f.superseded_by and (f.content, f.created_at) == this), None
    )
