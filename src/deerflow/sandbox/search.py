"""Globs and line searches over file trees, bounded in results and in time."""

from __future__ import annotations

import fnmatch
import posixpath
import re
import time
from typing import IO, Any

from deerflow.errors import ToolError
from deerflow.sandbox.protocol import GrepHit

MAX_ENTRIES = 100_000
"""Directory entries that one listing, glob or grep looks at."""
MAX_SECONDS = 10.0
"""Wall time of one glob or grep."""
MAX_LINE = 1 << 20
"""Bytes of a line that are searched at a time."""
SHOWN_LINE = 500
"""Characters of a matching line that are shown."""
_SNIFF = 8192
_BLOCK = 1 << 16
_BLOCK_SECONDS = 0.05
_CONTEXTUAL = re.compile(r"\(\?|\\[AZzGR]|[*+?}]\+")
"""What may match in a line by itself and not in a block of lines, or the other way about."""
_MAX_ALTERNATIVES = 64
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_MAGIC = re.compile(r"[*?\[{]")


class Clock:
    """Counts what a search costs and stops it."""

    def __init__(self) -> None:
        self._entries = 0
        self._end = time.monotonic() + MAX_SECONDS

    def tick(self) -> None:
        """One more entry.

        Raises:
            ToolError: the search is too large.
        """
        self._entries += 1
        if self._entries > MAX_ENTRIES:
            raise ToolError(
                f"The search was stopped after {MAX_ENTRIES:,} entries.",
                cure="Name a narrower `path`.",
            )
        self.left()

    def left(self) -> float:
        """Seconds left, more than 0.

        Raises:
            ToolError: none left.
        """
        left = self._end - time.monotonic()
        if left <= 0:
            raise ToolError(
                f"The search was stopped after {MAX_SECONDS:.0f} seconds.",
                cure="Name a narrower `path`, or search with bash in the background.",
            )
        return left


class Glob:
    """A glob pattern: `*`, `?`, `[…]` within a name, `**` across folders, `{a,b}` alternatives.

    Args:
        pattern: relative, slashes between names.

    Raises:
        ToolError: more than 64 alternatives.
    """

    def __init__(self, pattern: str) -> None:
        self._alternatives = [
            [_segment(name) for name in alternative.split("/") if name not in ("", ".")]
            for alternative in _expand(pattern)
        ]
        self.names = set(pattern.split("/"))

    def matches(self, path: str) -> bool:
        """Whether a relative path matches as a whole."""
        names = path.split("/")
        return any(_matches(segments, names) for segments in self._alternatives)


def split_glob(pattern: str) -> tuple[str, str]:
    """The folder that a pattern names literally, and the rest (`a/b/*.py` → `a/b`, `*.py`)."""
    names = pattern.split("/")
    for count, name in enumerate(names):
        if _MAGIC.search(name) or count == len(names) - 1:
            prefix = "/".join(names[:count])
            return (prefix or "/" if pattern.startswith("/") else prefix), "/".join(names[count:])
    return "", pattern


def included(include: str) -> Glob | None:
    """Filter of file names for grep; a pattern without a slash matches in every folder."""
    if not include:
        return None
    return Glob(include if "/" in include else f"**/{include}")


def _expand(pattern: str) -> list[str]:
    done: list[str] = []
    todo = [pattern]
    while todo:
        if len(done) + len(todo) > _MAX_ALTERNATIVES:
            raise ToolError("The glob has too many {…} alternatives.", cure="Use several globs.")
        text = todo.pop()
        found = _BRACES.search(text)
        if found is None:
            done.append(text)
            continue
        todo += [text[: found.start()] + part + text[found.end() :] for part in found[1].split(",")]
    return done


def _segment(name: str) -> re.Pattern[str] | None:
    return None if name == "**" else re.compile(fnmatch.translate(name))


def _matches(segments: list[re.Pattern[str] | None], names: list[str]) -> bool:
    positions = {0}
    for segment in segments:
        if segment is None:
            positions = set(range(min(positions), len(names) + 1))
        else:
            positions = {at + 1 for at in positions if at < len(names) and segment.match(names[at])}
        if not positions:
            return False
    return len(names) in positions


class LineSearch:
    """Collects the lines that match a regular expression; a pattern cannot run away.

    Args:
        pattern: syntax of Python's `re`.
        limit: hits to collect.
        clock: bounds the whole search.

    Raises:
        ToolError: a bad pattern.
    """

    def __init__(self, pattern: str, limit: int, clock: Clock) -> None:
        # 65 ms of CPU to import, and only a grep needs it; `re` has no time limit
        import regex  # noqa: PLC0415

        self.hits: list[GrepHit] = []
        self._limit = limit
        self._clock = clock
        try:
            self._line: Any = regex.compile(pattern)
            quick = None if _CONTEXTUAL.search(pattern) else pattern
            self._block: Any = quick and regex.compile(quick, regex.MULTILINE)
        except regex.error as error:
            raise ToolError(
                f"The pattern is no regular expression: {error}.",
                cure=r"Escape literal characters such as ( [ { . * + ? with \.",
            ) from error

    @property
    def full(self) -> bool:
        """Whether the limit is reached."""
        return len(self.hits) >= self._limit

    def feed(self, virtual: str, stream: IO[bytes]) -> None:
        """Search one file; a binary one (a NUL in its first 8 KiB) is skipped.

        Raises:
            ToolError: time is up.
        """
        if b"\0" in stream.read(_SNIFF):
            return
        stream.seek(0)
        before = 0
        while not self.full and (block := stream.read(_BLOCK)):
            block += stream.readline(MAX_LINE)
            text = block.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
            if before == 0:
                text = text.removeprefix("\ufeff")
            if self._may_match(text):
                self._search(virtual, before, text.removesuffix("\n").split("\n"))
            before += block.count(b"\n")

    def _may_match(self, text: str) -> bool:
        """False when no line of the block can match: a hundred times quicker than line by line."""
        if self._block is None:
            return True
        try:
            seconds = min(self._clock.left(), _BLOCK_SECONDS)
            return self._block.search(text, timeout=seconds, concurrent=True) is not None
        except TimeoutError:  # a pattern that runs on over line ends
            self._block = None
            return True

    def _search(self, virtual: str, before: int, lines: list[str]) -> None:
        for number, text in enumerate(lines, start=before + 1):
            try:
                found = self._line.search(text, timeout=self._clock.left(), concurrent=True)
            except TimeoutError:
                raise ToolError(
                    "The pattern takes too long to match.", cure="Write it without nested repeats."
                ) from None
            if found is not None:
                self.hits.append(GrepHit(virtual, number, _shown(text, found.start())))
                if self.full:
                    return


def _shown(text: str, at: int) -> str:
    if len(text) <= SHOWN_LINE:
        return text
    start = max(0, min(at - SHOWN_LINE // 4, len(text) - SHOWN_LINE + 1))
    return f"{'…' if start else ''}{text[start : start + SHOWN_LINE - 2]}…"


def relative(virtual: str, base: str) -> str:
    """A virtual path below another one, as a relative path."""
    return posixpath.relpath(virtual, base)
