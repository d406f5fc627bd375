"""What a recogniser found out about a question, and what a reader found in an answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

JudgeName = Literal["value", "quantity", "solutions", "factored", "balanced", "ratio", "clock"]


@dataclass(frozen=True, slots=True)
class Check:
    """How answers to a question are checked; made from the question's text alone.

    Attributes:
        kind: of the question, e.g. "linear_system".
        judge: part of the checking program that knows the right answer from the facts.
        facts: JSON for the judge.
        letters: names that an answer's formula may hold.
    """

    kind: str
    judge: JudgeName
    facts: dict[str, Any]
    letters: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Reading:
    """What an answer says, as JSON for the judge.

    Attributes:
        candidates: the one that is meant first, then others that the text holds.
        declared: whether the text says which one is meant.
        hedged: whether it leaves more than one open.
        union: whether another candidate counts as much as the first.
    """

    candidates: list[Any]
    declared: bool = False
    hedged: bool = False
    union: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A question as recognisers see it.

    Attributes:
        text: in plain notation, words for operations replaced by signs.
        raw: as it was asked, in plain notation.
        lower: `text` in lower case.
    """

    text: str
    raw: str
    lower: str = field(default="")
