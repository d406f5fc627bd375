"""A window of lines out of a file that may be larger than memory."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from deerflow.tools.text import BOM, shown


@dataclass(frozen=True, slots=True)
class View:
    r"""What the window shows.

    Attributes:
        text: whole lines, without a byte order mark, LF line ends, stray bytes as \xNN.
        first: number of the first line.
        last: number of the last line that is shown, in part at least.
        stray: bytes that are not UTF-8.
        next_line: where to go on, None when the window's end was reached.
        next_char: character of that line to go on at, 1 for its beginning.
    """

    text: str
    first: int
    last: int
    stray: int
    next_line: int | None
    next_char: int = 1


class Window:
    """Takes bytes as they come and keeps those of the window.

    Args:
        first: first line, from 1.
        last: last line, None for the end of the file.
        char: character of the first line to start at, from 1.
        limit: characters to show.
    """

    def __init__(self, first: int, last: int | None, char: int, limit: int) -> None:
        self._first = first
        self._last = last
        self._skip = char - 1
        self._limit = limit
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._line = 1
        self._started = False
        self._kept = ""
        self._begun = False
        self._open_line = False

    @property
    def lines(self) -> int:
        """Lines that went by before the window; the file's, when `view` is None."""
        return self._line if self._open_line else self._line - 1

    def feed(self, data: bytes, *, final: bool = False) -> bool:
        """Take bytes; True when no more are needed."""
        text = self._decoder.decode(data, final)
        if text:
            if not self._begun:
                text = text.removeprefix(BOM)
                self._begun = True
            self._open_line = not text.endswith("\n")
        text = self._from_first(text)
        if not self._started:
            return False
        self._kept += text
        enough = self._skip + self._limit + 2 + self._kept.count("\r\n")
        if len(self._kept) > enough:
            return True
        return self._last is not None and self._kept.count("\n") > self._last - self._first

    def _from_first(self, text: str) -> str:
        if self._started:
            return text
        ahead = self._first - self._line
        breaks = text.count("\n")
        if breaks < ahead:
            self._line += breaks
            return ""
        at = 0
        for _ in range(ahead):
            at = text.index("\n", at) + 1
        self._line = self._first
        self._started = True
        return text[at:]

    def view(self) -> View | None:
        """What was kept; None when the file ends before the window begins."""
        if not self._started or (not self._kept and self._first > 1):
            return None
        body = self._kept.replace("\r\n", "\n")
        ended = False
        if self._last is not None:
            lines = body.split("\n")
            wanted = self._last - self._first + 1
            ended = len(lines) > wanted
            body = "\n".join(lines[:wanted])
        first_break = body.find("\n")
        start = self._skip if first_break < 0 else min(self._skip, first_break)
        body = body[start:]
        if len(body) <= self._limit:
            text, stray = shown(body)
            last = self._first + body.count("\n") - (body.endswith("\n") and not ended)
            return View(text, self._first, max(last, self._first), stray, None)
        return self._cut(body, start)

    def _cut(self, body: str, start: int) -> View:
        at = body.rfind("\n", 0, self._limit + 1)
        if at >= 0:
            text, stray = shown(body[:at])
            last = self._first + body.count("\n", 0, at)
            return View(text, self._first, last, stray, last + 1)
        text, stray = shown(body[: self._limit])
        next_char = start + self._limit + 1
        return View(text, self._first, self._first, stray, self._first, next_char)
