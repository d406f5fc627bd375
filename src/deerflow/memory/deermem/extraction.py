"""What the updater's model answered, read value by value: a broken one never costs the others."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from deerflow.errors import ModelError
from deerflow.memory.deermem.words import clean
from deerflow.memory.protocol import (
    CATEGORIES,
    HISTORY_SUMMARIES,
    MAX_FACT_CHARS,
    USER_SUMMARIES,
    Category,
)

logger = logging.getLogger(__name__)

SUMMARY_CHARS = 2_000
"""Of one summary; a longer one is left out, the former stays."""
MAX_ADDED = 50
"""Facts of one reply; a conversation of minutes does not hold more."""
_TRIES = 200
"""Opening braces that are tried as the start of an object."""

_KEYS = ("facts", "summaries", "confirmed", "contradicted")
_FENCE = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class NewFact:
    """A fact that the model wants to add, checked; `supersedes` holds ids as the model gave them.

    Attributes:
        content: not empty, at most MAX_FACT_CHARS characters, on one line.
        category: one of CATEGORIES.
        confidence: 0 to 1, at least the threshold.
        valid_days: days for which it holds, None for ever.
        supersedes: ids of facts that it replaces.
    """

    content: str
    category: Category
    confidence: float
    valid_days: float | None = None
    supersedes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Extraction:
    """A reply of the updater's model.

    Attributes:
        facts: to add.
        summaries: name → new text; names of USER_SUMMARIES and HISTORY_SUMMARIES.
        confirmed: ids of facts that were said again.
        contradicted: ids of facts that hold no more.
    """

    facts: tuple[NewFact, ...] = ()
    summaries: dict[str, str] = field(default_factory=dict[str, str])
    confirmed: tuple[str, ...] = ()
    contradicted: tuple[str, ...] = ()


def read_reply(text: str, *, threshold: float) -> Extraction:
    """The reply as an extraction.

    JSON may stand in a fence, bare, or between prose, and may be cut off: then the facts that are
    whole count. Each value that is no good is left out with a line in the log.

    Args:
        text: the model's visible text.
        threshold: facts with less confidence are left out.

    Raises:
        ModelError: there is no JSON object of this kind in it.
    """
    found = _object(text)
    if found is None:
        raise ModelError(
            "The model that extracts memories did not answer with JSON.",
            cure="Name a more able one in memory.backend_config.model_name.",
        )
    facts = (_fact(raw, threshold) for raw in _listed(found, "facts")[:MAX_ADDED])
    return Extraction(
        facts=tuple(fact for fact in facts if fact is not None),
        summaries=_summaries(found),
        confirmed=_ids(found.get("confirmed")),
        contradicted=_ids(found.get("contradicted")),
    )


def _object(text: str) -> dict[str, Any] | None:
    """The first object with a key of ours; else whatever whole facts there are."""
    loose: list[dict[str, Any]] = []
    for value in _values(text):
        if any(key in value for key in _KEYS):
            return value
        if "content" in value:
            loose.append(value)
    if loose:
        return {"facts": loose}
    return {} if re.fullmatch(r"\s*(```\w*\s*)?(\{\s*\}|\[\s*\])\s*(```)?\s*", text) else None


def _values(text: str) -> Iterator[dict[str, Any]]:
    """JSON objects in a text: those of fences first, then any, outer ones before inner ones."""
    decoder = json.JSONDecoder()
    for part in [*_FENCE.findall(text), text]:
        start, end = -1, -1
        for _ in range(_TRIES):
            start = part.find("{", max(start + 1, end))
            if start < 0:
                break
            try:
                value, end = decoder.raw_decode(part, start)
            except (ValueError, RecursionError):
                continue
            yield cast("dict[str, Any]", value)


def _fact(raw: Any, threshold: float) -> NewFact | None:
    if not isinstance(raw, dict):
        return _left_out("fact", "no object", raw)
    value = cast("dict[str, Any]", raw)
    given = value.get("content")
    text = given if isinstance(given, str) else ""
    content = clean(text[: MAX_FACT_CHARS + 1])
    if not content:
        return _left_out("fact", "no content", given)
    if len(text) > MAX_FACT_CHARS:
        return _left_out("fact", f"more than {MAX_FACT_CHARS} characters", given)
    confidence = _number(value.get("confidence"))
    if confidence is None or not 0 <= confidence <= 1:
        return _left_out("fact", "confidence is no number from 0 to 1", raw)
    if confidence < threshold:
        return None
    days = _number(value.get("valid_days"))
    if value.get("valid_days") is not None and (days is None or days <= 0):
        days = _left_out("valid_days", "no number above 0", value.get("valid_days"))
    return NewFact(
        content, _category(value.get("category")), confidence, days, _ids(value.get("supersedes"))
    )


def _category(raw: Any) -> Category:
    name = raw.strip().casefold() if isinstance(raw, str) else ""
    for known in CATEGORIES:
        if name in (known, f"{known}s"):
            return known
    if raw is not None:
        _left_out("category", "unknown", raw)
    return "context"


def _number(raw: Any) -> float | None:
    """A finite number, also when it came as text; None for anything else."""
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        return None
    try:
        number = float(raw)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _summaries(found: dict[str, Any]) -> dict[str, str]:
    raw = found.get("summaries")
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        _left_out("summaries", "no object", raw)
        return {}
    kept: dict[str, str] = {}
    for name, text in cast("dict[str, Any]", raw).items():
        if text is None or text == "":
            continue
        if name not in (*USER_SUMMARIES, *HISTORY_SUMMARIES):
            _left_out("summary", "unknown name", name)
        elif not isinstance(text, str) or len(text) > SUMMARY_CHARS:
            _left_out(f"summary {name}", f"no text of up to {SUMMARY_CHARS} characters", text)
        elif text.strip():
            kept[name] = text.strip().replace("\x00", " ").encode("utf-8", "replace").decode()
    return kept


def _ids(raw: Any) -> tuple[str, ...]:
    if raw is None or raw == "":
        return ()
    if isinstance(raw, str):
        return (raw,)
    if not isinstance(raw, list):
        _left_out("ids", "no list", raw)
        return ()
    listed = cast("list[Any]", raw)
    return tuple(dict.fromkeys(name for name in listed if isinstance(name, str) and name))


def _listed(found: dict[str, Any], key: str) -> list[Any]:
    raw = found.get(key)
    if isinstance(raw, list):
        return cast("list[Any]", raw)
    if raw is not None:
        _left_out(key, "no list", raw)
    return []


def _left_out(what: str, why: str, value: Any) -> None:
    """A line in the log; the value itself may be the user's, so only its kind is told."""
    size = f" of {len(value)}" if isinstance(value, str) else ""
    logger.warning("memory: %s left out: %s (%s%s)", what, why, type(value).__name__, size)
