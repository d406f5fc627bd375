"""Formulas inside prose: where they stand, and which of them is the one that is meant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from deerflow.verify.grammar import FUNCTIONS, LONGEST, AnswerError, Node, parse
from deerflow.verify.notation import MOST_TEXT, broken, plain, spoken

MOST_BOXES = 5
MOST_RUNS = 200
"""Formulas of one text that are looked at."""

_PIECE = re.compile(
    r"(?P<word>[A-Za-z]+'?[A-Za-z]*|[θαβλΔ])|(?P<number>[0-9]{1,3}(?:,[0-9]{3})+(?![0-9,])(?:\.[0-9]+)?"
    r"|[0-9]+(?:\.[0-9]+)?|\.[0-9]+)|(?P<sign>[-+*/^=(),;%°±\[\]]|[或和])|(?P<line>\n\s*)"
    r"|(?P<space>[ \t\r]+)|(?P<other>.)",
    re.DOTALL,
)
_JOINING = {"and", "or"}
_DECLARED = re.compile(
    r"(?:\b(?:final\s+|correct\s+|right\s+)?answers?\b(?:\s+(?:to|for)\s+[^.:\n]{1,40})?"
    r"\s*(?:(?:is|are|would\s+be|should\s+be|must\s+be|=|:)\s*)+|(?:最终|正确|最后)?(?:答案|答)\s*(?:应该|应)?"
    r"\s*(?:是|为|选|:|=)+\s*)(?!\s*(?:not\b|n't|isn|unknown|unclear))",
    re.IGNORECASE,
)
_BOX = re.compile(r"\\f?boxed\s*\{")
_NOT = re.compile(
    r"(?:\bnot(?:\s+(?:be|equal(?:\s+to)?))?|n't(?:\s+be)?|\bnever|\brather\s+than|\binstead\s+of|不是|不等于|不为|并非|≠)"
    r"\s*$",
    re.IGNORECASE,
)
_HEDGE = re.compile(
    r"\b(?:maybe|perhaps|possibly|might|could\s+be|either|not\s+sure|or)\b|可能|也许|或者|或",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Run:
    """A formula in prose: its tree, where it begins and ends in the plain text."""

    node: Node
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Meant:
    """The part of an answer that says the result.

    Attributes:
        text: of that part, plain and spoken.
        declared: whether the text itself says that this is the result.
        hedged: whether it leaves more than one result open.
    """

    text: str
    declared: bool
    hedged: bool


def looked_through(text: str) -> str:
    """A text of bounded length without broken characters, as it came.

    Raises:
        AnswerError: it is longer, or broken.
    """
    if len(text) > MOST_TEXT:
        raise AnswerError(f"The text is longer than {MOST_TEXT:,} characters.")
    if broken(text):
        raise AnswerError("The text holds characters that no text holds.")
    return text


def meant(text: str) -> Meant:
    """What a text says last and most clearly: its last box, its last declaration, or all of it.

    Raises:
        AnswerError: the text is too long or broken.
    """
    text = looked_through(text)
    box = _box(text)
    if box is not None:
        return Meant(spoken(plain(box)), declared=True, hedged=False)
    text = plain(text)
    declarations = [found for found in _DECLARED.finditer(text) if _has_result(text, found.end())]
    if declarations:
        part = text[declarations[-1].end() :]
        return Meant(spoken(part), declared=True, hedged=_HEDGE.search(part) is not None)
    return Meant(spoken(text), declared=False, hedged=_HEDGE.search(text) is not None)


def _has_result(text: str, place: int) -> bool:
    return re.search(r"[0-9A-Za-z√]", text[place:]) is not None


def _box(text: str) -> str | None:
    """What the last closed box holds."""
    for found in list(_BOX.finditer(text))[: -MOST_BOXES - 1 : -1]:
        depth, place = 1, found.end()
        while place < len(text) and depth:
            depth += {"{": 1, "}": -1}.get(text[place], 0)
            place += 1
        if not depth:
            return text[found.end() : place - 1]
    return None


def runs(text: str, letters: frozenset[str] | None = None) -> list[Run]:
    """The formulas of a plain text in their order, the longest that parse.

    Args:
        text: plain, see `notation.plain`.
        letters: names that may stand in a formula; None takes every single letter.
    """
    found: list[Run] = []
    for start, end in _stretches(text, letters):
        if _NOT.search(text[max(0, start - 40) : start]):
            continue
        found.extend(_parsed(text, start, end))
        if len(found) > MOST_RUNS:
            break
    return found[-MOST_RUNS:]


def _stretches(text: str, letters: frozenset[str] | None) -> Iterator[tuple[int, int]]:
    start: int | None = None
    end = 0
    for piece in _PIECE.finditer(text):
        kind = piece.lastgroup
        if kind == "space":
            continue
        inside = kind in ("number", "sign") or (kind == "word" and _formal(piece.group(), letters))
        if inside:
            start = piece.start() if start is None else start
            end = piece.end()
        elif start is not None:
            yield start, end
            start = None
    if start is not None:
        yield start, end


def _formal(word: str, letters: frozenset[str] | None) -> bool:
    """Whether a word may be part of a formula."""
    if word.lower() in _JOINING or word.lower() in FUNCTIONS or word in ("pi", "Pi"):
        return True
    if letters is None:
        return len(word) == 1 or (
            len(word) <= 3 and set(word) <= set("xyzabcmnpqrt") and word.lower() not in _SMALL_WORDS
        )
    return all(letter in letters for letter in word)


_SMALL_WORDS = {
    "at", "by", "my", "am", "an", "cm", "mm", "act", "any", "cat", "bar", "map", "tax",
    "car", "try", "may", "can", "man", "ran", "pay", "pa", "ma", "art", "arm", "bat", "bay", "cap",
    "app", "bmx", "max", "min", "nm", "mr", "bc", "pt", "cry", "ray", "rat", "tan", "ten",
}  # fmt: skip


def _parsed(text: str, start: int, end: int) -> list[Run]:
    """The stretch as one formula; where that is none, the longest formulas in it."""
    part = text[start:end]
    lead = len(part) - len(part.lstrip(" \t*/^=,;%°)]"))
    tail = len(part.rstrip(" \t-+*/^=,;(±["))
    part = part[lead:tail]
    trimmed = re.sub(r"^(?:(?:and|or|[或和])(?![A-Za-z])\s*)+", "", part)
    lead += len(part) - len(trimmed)
    part = re.sub(r"(?:\s*(?:(?<![A-Za-z])(?:and|or)|[或和]))+$", "", trimmed)
    if not part or len(part) > LONGEST:
        return []
    try:
        return [Run(parse(part), start + lead, start + lead + len(part))]
    except AnswerError:
        pass
    cut = _cut(part)
    if cut is None:
        return []
    here = start + lead
    return [*_parsed(text, here, here + cut[0]), *_parsed(text, here + cut[1], here + len(part))]


def _cut(part: str) -> tuple[int, int] | None:
    """Where a stretch that is no formula falls apart: at a comma, a bracket, a gap."""
    for pattern in (r"[,;]\s+", r"(?<![A-Za-z])(?:and|or)(?![A-Za-z])|[或和]", r"[()\[\]]", r"\s+"):
        places = list(re.finditer(pattern, part))
        middle = [found for found in places if 0 < found.start() and found.end() < len(part)]
        if middle:
            found = middle[len(middle) // 2]
            return found.start(), found.end()
    if part[0] in "([":
        return (0, 1)
    return None
