"""How numbers and foreign names stand in reports and in the names of their files."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping

from deerflow.exam.accounts import Spent
from deerflow.exam.statistics import Estimate

NOTHING = "—"
LONGEST = 200
PARAGRAPH = 4_000
"""Signs of a name or a cell, and of a paragraph, that a report shows."""
_LONGEST_NAME = 50
_MARKDOWN = re.compile(r"([\\`*\[\]|])")
_UNSAFE = re.compile(r"[^\w.+-]+")


def percent(share: float | None) -> str:
    """With one decimal."""
    return NOTHING if share is None else f"{share:.1%}"


def percents(estimate: Estimate) -> str:
    """The ends of an interval."""
    return f"{estimate.low:.1%} to {estimate.high:.1%}"


def number(value: float | None) -> str:
    """Three decimals."""
    return NOTHING if value is None else f"{value:.3f}"


def points(value: float) -> str:
    """A difference of shares in percentage points, with its sign."""
    return f"{100 * value:+.1f}"


def p_value(value: float) -> str:
    """As usual in papers."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def per(total: float, count: int) -> str:
    """A mean as a whole number; a dash where there is nothing to divide by."""
    return f"{total / count:,.0f}" if count else NOTHING


def money(cost: Mapping[str, float], count: int = 1) -> str:
    """Money by currency, for each of `count`."""
    if not count or not cost:
        return NOTHING
    return ", ".join(f"{value / count:.4g} {plain(name)}" for name, value in sorted(cost.items()))


def price(spent: Spent, count: int) -> str:
    """Tokens for each of `count`, and money where it is known."""
    tokens = per(spent.total, count)
    return f"{tokens} ({money(spent.cost, count)})" if spent.cost and count else tokens


def plain(text: str, longest: int = LONGEST) -> str:
    """One line, cut after so many signs; none that steers or turns the reading direction."""
    kept = "".join(
        " " if unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp") else sign
        for sign in text[:longest]
    )
    return " ".join(kept.split()) + ("…" if len(text) > longest else "")


def cell(text: str, longest: int = LONGEST) -> str:
    """A foreign text inside Markdown: it forms neither cells, links nor HTML."""
    return _MARKDOWN.sub(r"\\\1", plain(text, longest)).replace("<", "&lt;").replace(">", "&gt;")


def file_name(name: str) -> str:
    """A name that is safe in a path, the same for the same name and another for another.

    Letters, digits and `._+-` stay; a name that had to be changed ends in a digest of what it was.
    """
    usual = unicodedata.normalize("NFC", name)
    kept = _UNSAFE.sub("-", usual).strip(".-")[:_LONGEST_NAME].strip(".-")
    if kept and kept == name:
        return kept
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{kept}-{digest}" if kept else f"result-{digest}"
