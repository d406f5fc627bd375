"""Changes of a document, each a pure function: add, confirm, supersede, retire."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from deerflow.errors import UsageError
from deerflow.memory.deermem.words import clean, normalised
from deerflow.memory.protocol import (
    CATEGORIES,
    HISTORY_SUMMARIES,
    MAX_FACT_CHARS,
    MAX_TAKEN,
    RETIRED,
    USER_SUMMARIES,
    Category,
    Fact,
    MemoryDocument,
    Source,
    Summary,
)

MAX_PAST = 1_000
"""Superseded and retired facts that a document keeps; the oldest go first."""

MAX_SUMMARY_CHARS = 20_000
"""A layer of prose is a few paragraphs; what is longer is cut."""

LAST_SECOND = 253_402_300_799.0
"""9999-12-31T23:59:59Z, the last second that ISO 8601 times can name."""


def new_id() -> str:
    """An id for a fact, in the form of 2.x files."""
    return f"fact_{secrets.token_hex(8)}"


def checked_content(content: Any) -> str:
    """Content as it is kept: one line.

    Raises:
        UsageError: empty, too long or no text.
    """
    text = clean(content) if isinstance(content, str) else ""
    if not text:
        raise UsageError("A fact needs content.", cure="Say in a sentence what to remember.")
    if len(text) > MAX_FACT_CHARS:
        raise UsageError(
            f"The fact has {len(text):,} characters, at most {MAX_FACT_CHARS:,} are kept.",
            cure="Say it in a sentence, or keep the text in a file.",
        )
    return text


def checked_category(category: Any) -> Category:
    """One of CATEGORIES.

    Raises:
        UsageError: it is another word.
    """
    if category not in CATEGORIES:
        raise UsageError(
            f"There is no category {str(category)[:50]!r}.", cure=f"Use {', '.join(CATEGORIES)}."
        )
    return category


def checked_confidence(confidence: Any) -> float:
    """A number from 0 to 1.

    Raises:
        UsageError: it is something else.
    """
    if isinstance(confidence, bool) or not isinstance(confidence, int | float):
        raise UsageError("The confidence is no number.", cure="Give a number from 0 to 1.")
    if not 0 <= confidence <= 1:  # NaN is not either
        raise UsageError(f"The confidence is {confidence}.", cure="Give a number from 0 to 1.")
    return float(confidence)


def fact_of(document: MemoryDocument, fact_id: str) -> Fact | None:
    """The fact with an id, current or past."""
    return next((fact for fact in document.facts if fact.id == fact_id), None)


def twin_of(document: MemoryDocument, content: str) -> Fact | None:
    """The current fact that says the same."""
    wanted = normalised(content)
    return next((fact for fact in document.current if normalised(fact.content) == wanted), None)


def with_fact(
    document: MemoryDocument, fact: Fact, *, replaces: str = "", max_facts: int = 100
) -> tuple[MemoryDocument, Fact]:
    """Take a fact in: a new one is added, a known one confirmed.

    Args:
        document: what is remembered.
        fact: a new fact, `last_confirmed` is the moment at which it was said.
        replaces: id of a current fact that it contradicts; that one gets a pointer to it.
        max_facts: then the least valuable current facts are retired.

    Returns:
        The new document, and the fact as it is in there.
    """
    twin = twin_of(document, fact.content)
    if twin is not None and twin.id != replaces:
        kept = confirmed(twin, fact)
        kept = kept.with_(supersedes=kept.supersedes or replaces)
        facts = [kept if each.id == twin.id else each for each in document.facts]
    else:
        kept = fact.with_(supersedes=replaces)
        facts = [*document.facts, kept]
    if replaces:
        facts = [
            each.with_(superseded_by=kept.id) if each.id == replaces else each for each in facts
        ]
    return retired(document.with_(facts=tuple(facts)), max_facts, keep=kept.id), kept


def confirmed(fact: Fact, again: Fact) -> Fact:
    """A fact that was said again: no less certain, a correction when either is one."""
    correction = "correction" in (fact.category, again.category)
    longest = (
        None
        if fact.valid_days is None or again.valid_days is None
        else max(fact.valid_days, again.valid_days)
    )
    return fact.with_(
        category="correction" if correction else fact.category,
        confidence=max(fact.confidence, again.confidence),
        last_confirmed=max(fact.last_confirmed, again.last_confirmed),
        valid_days=longest,
    )


def retired(document: MemoryDocument, max_facts: int, *, keep: str = "") -> MemoryDocument:
    """Make room: the least valuable current facts become history, corrections last of all.

    Args:
        document: what is remembered.
        max_facts: current facts that may stay.
        keep: id of a fact that stays whatever it is worth: it has just been said.
    """
    current = document.current
    surplus = len(current) - max_facts
    if surplus <= 0:
        return document
    ranked = sorted(
        current,
        key=lambda f: (
            f.id == keep,
            f.category == "correction",
            f.confidence,
            f.last_confirmed,
            f.created_at,
        ),
    )
    gone = {fact.id for fact in ranked[:surplus]}
    return document.with_(
        facts=tuple(f.with_(superseded_by=RETIRED) if f.id in gone else f for f in document.facts)
    )


def stale(fact: Fact, now: float) -> bool:
    """Whether it has not been confirmed for longer than it holds."""
    return fact.valid_days is not None and now > fact.last_confirmed + fact.valid_days * 86_400


def sealed(former: MemoryDocument, new: MemoryDocument, now: float) -> MemoryDocument:
    """The new document as a storage keeps it: next revision, bounded, nothing that breaks a file.

    Raises:
        UsageError: see `checked_content`, `checked_category`, `checked_confidence`.
        ValueError: two facts have one id, an unknown summary, a time or duration that is none.
    """
    sound = {fact.id: fact for fact in former.facts}
    facts = tuple(f if sound.get(f.id) == f else _sound(f) for f in new.facts)
    if len({fact.id for fact in facts}) < len(facts):
        raise ValueError("two facts have the same id")
    past = [fact.id for fact in facts if fact.superseded_by]
    gone = set(past[: max(0, len(past) - MAX_PAST)])
    return replace(
        new,
        user=_sound_summaries(new.user, USER_SUMMARIES),
        history=_sound_summaries(new.history, HISTORY_SUMMARIES),
        facts=tuple(fact for fact in facts if fact.id not in gone),
        updated_at=moment(now),
        revision=former.revision + 1,
        taken=new.taken[-MAX_TAKEN:],
    )


def moment(seconds: float) -> float:
    """A time that ISO 8601 can name, to the microsecond."""
    if not math.isfinite(seconds):
        raise ValueError(f"{seconds} is no time")
    return round(min(max(seconds, 0.0), LAST_SECOND), 6)


def without(facts: Iterable[Fact], fact_id: str) -> tuple[Fact, ...]:
    """All facts but one."""
    return tuple(fact for fact in facts if fact.id != fact_id)


def _sound(fact: Fact) -> Fact:
    if fact.valid_days is not None and not 0 <= fact.valid_days < math.inf:
        raise ValueError(f"a fact cannot hold for {fact.valid_days} days")
    return fact.with_(
        id=clean(fact.id),
        content=checked_content(fact.content),
        category=checked_category(fact.category),
        confidence=checked_confidence(fact.confidence),
        source=Source(clean(fact.source.thread), clean(fact.source.message)),
        created_at=moment(fact.created_at),
        last_confirmed=moment(fact.last_confirmed),
        valid_days=None if fact.valid_days is None else float(fact.valid_days),
    )


def _sound_summaries(layers: dict[str, Summary], names: tuple[str, ...]) -> dict[str, Summary]:
    if not layers.keys() <= set(names):
        raise ValueError(f"there is no summary {sorted(layers.keys() - set(names))}")
    return {
        name: Summary(text, moment(layer.updated_at))
        for name, layer in layers.items()
        for text in [clean(layer.text)[:MAX_SUMMARY_CHARS].rstrip()]
        if text
    }
