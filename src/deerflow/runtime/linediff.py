"""Unified diffs that take bounded time, whatever the two texts are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

MATCHED = 2_000
"""Lines up to which the part between the common ends is matched line by line: its worst case is
quadratic, about a second here. A longer part counts as replaced as a whole."""
CONTEXT = 3

Code = tuple[Literal["replace", "delete", "insert", "equal"], int, int, int, int]


@dataclass(frozen=True, slots=True)
class LineDiff:
    """What changed between two texts.

    Attributes:
        text: hunks of a unified diff without file names, "" when nothing changed.
        additions: lines that are new.
        deletions: lines that are gone.
    """

    text: str
    additions: int
    deletions: int


class _Matched(SequenceMatcher[str]):
    """Groups codes that are known already."""

    def __init__(self, codes: list[Code]) -> None:
        super().__init__(None, (), ())
        self._codes = codes

    def get_opcodes(self) -> list[Code]:
        """The known ones."""
        return self._codes


def diff(before: str, after: str) -> LineDiff:
    """The difference of two texts, line by line."""
    old, new = before.splitlines(), after.splitlines()
    codes = _codes(old, new)
    lines: list[str] = []
    for group in _Matched(codes).get_grouped_opcodes(CONTEXT):
        first, last = group[0], group[-1]
        lines.append(f"@@ -{_span(first[1], last[2])} +{_span(first[3], last[4])} @@")
        for kind, a, b, c, d in group:
            if kind == "equal":
                lines += [f" {line}" for line in old[a:b]]
            else:
                lines += [f"-{line}" for line in old[a:b]]
                lines += [f"+{line}" for line in new[c:d]]
    changed = [code for code in codes if code[0] != "equal"]
    return LineDiff(
        "\n".join(lines),
        sum(d - c for _, _, _, c, d in changed),
        sum(b - a for _, a, b, _, _ in changed),
    )


def _codes(old: Sequence[str], new: Sequence[str]) -> list[Code]:
    """What becomes of which lines, as `SequenceMatcher.get_opcodes` tells it."""
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    a, b = old[head : len(old) - tail], new[head : len(new) - tail]
    codes: list[Code] = [("equal", 0, head, 0, head)] if head else []
    if max(len(a), len(b)) > MATCHED:
        codes.append(("replace", head, head + len(a), head, head + len(b)))
    else:
        for kind, start, end, begin, stop in SequenceMatcher(None, a, b).get_opcodes():
            codes.append((kind, start + head, end + head, begin + head, stop + head))
    if tail:
        codes.append(("equal", len(old) - tail, len(old), len(new) - tail, len(new)))
    return codes


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines both begin with."""
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _span(start: int, end: int) -> str:
    """Lines in the notation of diff: an empty range names the line before it."""
    length = end - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"
