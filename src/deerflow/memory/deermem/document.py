"""A memory as JSON: the shape of 2.x memory.json files, with further fields of ours."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

from deerflow.memory.deermem.facts import LAST_SECOND, MAX_SUMMARY_CHARS, moment, new_id
from deerflow.memory.deermem.words import clean
from deerflow.memory.protocol import (
    CATEGORIES,
    HISTORY_SUMMARIES,
    MAX_FACT_CHARS,
    MAX_TAKEN,
    USER_SUMMARIES,
    Fact,
    MemoryDocument,
    Source,
    Summary,
)

VERSION = "1.0"
"""`version` of 2.x files, which readers of either generation understand."""

MAX_ID_CHARS = 200
"""Ids come from here or from a 2.x file (21 characters)."""

LAYERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("user", USER_SUMMARIES),
    ("history", HISTORY_SUMMARIES),
)


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read from JSON.

    Attributes:
        document: what is sound in it.
        left_out: a line per value that is not, with its place.
        recognised: False when it is no memory at all.
    """

    document: MemoryDocument
    left_out: tuple[str, ...] = ()
    recognised: bool = True


def to_json(document: MemoryDocument) -> dict[str, Any]:
    """The document in the 2.x shape; times are ISO 8601 in UTC, 0 is ""."""
    raw: dict[str, Any] = {
        "version": VERSION,
        "revision": document.revision,
        "lastUpdated": iso(document.updated_at),
    }
    for layer, names in LAYERS:
        given: dict[str, Summary] = getattr(document, layer)
        raw[layer] = {
            name: {"summary": found.text, "updatedAt": iso(found.updated_at)}
            for name in (*names, *(each for each in given if each not in names))
            for found in [given.get(name, Summary())]
        }
    raw["facts"] = [fact_to_json(fact) for fact in document.facts]
    raw["taken"] = list(document.taken)
    return raw


def fact_to_json(fact: Fact) -> dict[str, Any]:
    """One fact; the further fields are left out where they say nothing."""
    raw: dict[str, Any] = {
        "id": fact.id,
        "content": fact.content,
        "category": fact.category,
        "confidence": fact.confidence,
        "createdAt": iso(fact.created_at),
        "source": fact.source.thread,
    }
    further = {
        "sourceMessage": fact.source.message,
        "lastConfirmed": iso(fact.last_confirmed),
        "validDays": fact.valid_days,
        "supersedes": fact.supersedes,
        "supersededBy": fact.superseded_by,
    }
    return raw | {key: value for key, value in further.items() if value not in ("", None)}


def parse(data: bytes) -> Any:
    """Any JSON value.

    Raises:
        ValueError: it is no JSON text, or nested too deeply.
    """
    try:
        return json.loads(data.decode("utf-8-sig"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def from_json(raw: Any) -> Reading:
    """Read the 2.x shape, ours included.

    What 2.x versions wrote in other ways is understood (free categories, other forms of time,
    missing fields); what cannot be right is left out with a line. A top level that is no memory at
    all gives one line and an empty document.
    """
    if not isinstance(raw, Mapping) or not {"user", "history", "facts"} & cast("Any", raw).keys():
        line = "It holds no memory: neither user nor history nor facts."
        return Reading(MemoryDocument(), (line,), recognised=False)
    given = cast("Mapping[str, Any]", raw)
    notes = _Notes()
    taken = given.get("taken")
    return Reading(
        MemoryDocument(
            user=_summaries(given, "user", notes),
            history=_summaries(given, "history", notes),
            facts=_facts(given.get("facts"), notes),
            updated_at=seconds_of(given.get("lastUpdated")),
            revision=_count(given.get("revision")),
            taken=tuple(
                each
                for each in (cast("list[Any]", taken) if isinstance(taken, list) else [])
                if isinstance(each, str)
            )[-MAX_TAKEN:],
        ),
        tuple(notes.lines),
    )


def iso(seconds: float) -> str:
    """A time as text, to the microsecond; "" for 0."""
    if not seconds:
        return ""
    return datetime.fromtimestamp(moment(seconds), UTC).isoformat().replace("+00:00", "Z")


def seconds_of(value: Any) -> float:
    """UTC seconds of a time as text (without a zone: UTC) or as a number; 0 for anything else."""
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value.strip())
            aware = found if found.tzinfo else found.replace(tzinfo=UTC)
            return moment(aware.timestamp())
        except (ValueError, OverflowError):
            return 0.0
    number = _number(value)
    return number if number is not None and 0 <= number <= LAST_SECOND else 0.0


@dataclass(slots=True)
class _Notes:
    lines: list[str] = field(default_factory=list[str])

    def add(self, place: str, problem: str) -> None:
        self.lines.append(f"{place} {problem}")


def _summaries(given: Mapping[str, Any], layer: str, notes: _Notes) -> dict[str, Summary]:
    raw = given.get(layer)
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        notes.add(layer, "is no object")
        return {}
    found: dict[str, Summary] = {}
    for name, value in cast("Mapping[str, Any]", raw).items():
        place = f"{layer}.{name[:50]}"
        if name in dict(LAYERS)[layer]:
            summary = _summary(value, place, notes)
            if summary is not None:
                found[name] = summary
        elif value not in (None, "", {}):
            notes.add(place, "is no summary that is known")
    return found


def _summary(value: Any, place: str, notes: _Notes) -> Summary | None:
    text, at = value, None
    if isinstance(value, Mapping):
        inner = cast("Mapping[str, Any]", value)
        text, at = inner.get("summary"), inner.get("updatedAt")
    if text is None:
        return None
    if not isinstance(text, str):
        notes.add(place, "is no text")
    elif len(text) > MAX_SUMMARY_CHARS:
        notes.add(place, _too_long(text, MAX_SUMMARY_CHARS))
    elif clean(text):
        return Summary(clean(text), seconds_of(at))
    return None


def _facts(raw: Any, notes: _Notes) -> tuple[Fact, ...]:
    if raw is None:
        return ()
    if not isinstance(raw, list):
        notes.add("facts", "is no list")
        return ()
    found: dict[str, Fact] = {}
    for number, value in enumerate(cast("list[Any]", raw)):
        place = f"facts[{number}]"
        if not isinstance(value, Mapping):
            notes.add(place, "is no object")
            continue
        fact = _fact(cast("Mapping[str, Any]", value), place, notes)
        if fact is None:
            continue
        if fact.id in found:
            if found[fact.id] == fact:
                continue
            fact = fact.with_(id=new_id())
        found[fact.id] = fact
    return tuple(found.values())


def _fact(raw: Mapping[str, Any], place: str, notes: _Notes) -> Fact | None:
    content = raw.get("content")
    problems = [_content_problem(content)]
    confidence, valid_days = raw.get("confidence"), raw.get("validDays")
    if confidence is not None and _within(confidence, 1.0) is None:
        problems.append(f"has the confidence {_shown(confidence)}, which is not from 0 to 1")
    if valid_days is not None and _within(valid_days, math.inf) is None:
        problems.append(f"has validDays {_shown(valid_days)}")
    problem = next(filter(None, problems), "")
    if problem:
        notes.add(place, problem)
        return None
    created = seconds_of(raw.get("createdAt"))
    category = raw.get("category")
    name = category.strip().lower() if isinstance(category, str) else ""
    return Fact(
        id=_word(raw.get("id")) or new_id(),
        content=clean(cast("str", content)),
        category=name if name in CATEGORIES else "context",
        confidence=1.0 if confidence is None else float(confidence),
        source=_source(raw),
        created_at=created,
        last_confirmed=seconds_of(raw.get("lastConfirmed")) or created,
        valid_days=None if valid_days is None else float(valid_days),
        supersedes=_word(raw.get("supersedes")),
        superseded_by=_word(raw.get("supersededBy")),
    )


def _content_problem(content: Any) -> str:
    if not isinstance(content, str):
        return "has no content that is text"
    if len(content) > 10 * MAX_FACT_CHARS:  # cleaning could not save it
        return _too_long(content, MAX_FACT_CHARS)
    text = clean(content)
    if not text:
        return "is empty"
    return _too_long(text, MAX_FACT_CHARS) if len(text) > MAX_FACT_CHARS else ""


def _source(raw: Mapping[str, Any]) -> Source:
    given = raw.get("source")
    if isinstance(given, Mapping):
        inner = cast("Mapping[str, Any]", given)
        return Source(_word(inner.get("thread")), _word(inner.get("message")))
    thread = _word(given)
    return Source("" if thread == "unknown" else thread, _word(raw.get("sourceMessage")))


def _too_long(text: str, limit: int) -> str:
    return f"has {len(text):,} characters, at most {limit:,} are kept"


def _within(value: Any, most: float) -> float | None:
    number = _number(value)
    return number if number is not None and 0 <= number <= most else None


def _number(value: Any) -> float | None:
    """A finite number; a huge whole number is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _word(value: Any) -> str:
    return clean(value[:MAX_ID_CHARS]) if isinstance(value, str) else ""


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
