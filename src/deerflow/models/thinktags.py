"""Parts visible text from thinking that a model writes between tags in its content."""

from __future__ import annotations

import re

_AT_START = re.compile(r"\s*<(think|thinking|thought)>", re.IGNORECASE)
_START_PREFIXES = ("<think>", "<thinking>", "<thought>")
_OPEN = "<think>"

Piece = tuple[str, str]
"""(kind, text) with kind "text" or "reasoning"."""


class ThinkSplitter:
    """Streaming splitter of `<think>…</think>` blocks.

    At the start of the content `<think>`, `<thinking>` and `<thought>` open a block; later only
    `<think>` does, and not inside a code span or fence, where it is quoted. A later block that is
    never closed was a literal and comes back as text, unless the answer was cut short. White space
    after a block at the start is dropped.
    """

    def __init__(self) -> None:
        self._held = ""
        self._close = ""
        self._visible = False
        self._code = ""
        self._block = ""
        self.found = False

    @property
    def idle(self) -> bool:
        """Whether text without "<", "`" and line breaks may bypass the splitter."""
        return self._visible and not self._held and not self._close

    def feed(self, text: str) -> list[Piece]:
        """Pieces that are certain after `text`."""
        self._held += text
        pieces: list[Piece] = []
        while self._held and self._step(pieces):
            pass
        return pieces

    def close(self, *, truncated: bool = False) -> list[Piece]:
        """What was held back. `truncated`: the answer was cut by its length limit."""
        pieces: list[Piece] = []
        held, self._held = self._held, ""
        if self._close and self._visible:
            kind = "reasoning" if truncated else "text"
            literal = self._block + held if truncated else _OPEN + self._block + held
            _put(pieces, kind, literal)
        elif self._close:
            _put(pieces, "reasoning", held)
        else:
            _put(pieces, "text", held)
        self._close = ""
        return pieces

    def _step(self, pieces: list[Piece]) -> bool:
        if self._close:
            return self._inside(pieces)
        if not self._visible:
            return self._at_start()
        return self._outside(pieces)

    def _at_start(self) -> bool:
        match = _AT_START.match(self._held)
        if match:
            self._close = f"</{match.group(1).lower()}>"
            self._held = self._held[match.end() :]
            self.found = True
            return True
        stripped = self._held.lstrip()
        if self.found:
            self._held = stripped
        if not stripped or any(p.startswith(stripped.lower()) for p in _START_PREFIXES):
            return False
        self._visible = True
        return True

    def _inside(self, pieces: list[Piece]) -> bool:
        before, tag, after = self._held.partition(self._close)
        if tag:
            self._held, self._close = after, ""
            _put(pieces, "reasoning", self._block + before)
            self._block = ""
            return True
        keep = _overlap(self._held, self._close)
        ready, self._held = (
            self._held[: len(self._held) - keep],
            self._held[len(self._held) - keep :],
        )
        if self._visible:
            self._block += ready  # it may turn out to be a literal
        else:
            _put(pieces, "reasoning", ready)
        return False

    def _outside(self, pieces: list[Piece]) -> bool:
        at = self._held.find("<")
        plain = self._held if at < 0 else self._held[:at]
        rest = "" if at < 0 else self._held[at:]
        self._track_code(plain)
        _put(pieces, "text", plain)
        self._held = rest
        if not rest:
            return False
        if rest.startswith(_OPEN) and not self._in_code:
            self._held, self._close, self.found = rest[len(_OPEN) :], "</think>", True
            return True
        if _OPEN.startswith(rest):
            return False
        _put(pieces, "text", "<")
        self._held = rest[1:]
        return True

    @property
    def _in_code(self) -> bool:
        line = self._code.rpartition("\n")[2]
        return self._code.count("```") % 2 == 1 or line.replace("```", "").count("`") % 2 == 1

    def _track_code(self, text: str) -> None:
        if "`" in text or "\n" in text:
            marks = "".join(char for char in self._code + text if char in "`\n")
            fences = marks.count("```") % 2
            line = marks.rpartition("\n")[2]
            self._code = ("```\n" if fences else "") + line.replace("```", "")


def split_think(text: str, *, truncated: bool = False) -> tuple[str, str]:
    """(visible text, thinking) of whole content."""
    if "<" not in text:
        return text, ""
    cut, unopened = cut_unopened(text)
    if unopened:
        return cut, unopened
    splitter = ThinkSplitter()
    pieces = splitter.feed(text) + splitter.close(truncated=truncated)
    if not splitter.found:
        return text, ""
    visible = "".join(piece for kind, piece in pieces if kind == "text")
    return visible, "\n\n".join(
        piece.strip() for kind, piece in pieces if kind == "reasoning" and piece.strip()
    )


def cut_unopened(text: str) -> tuple[str, str]:
    """(visible text, thinking) of content whose opening tag stood in the server's template.

    Only a closing tag outside code that is the first tag of the content counts.
    """
    before, tag, after = text.partition("</think>")
    quoted = before.count("```") % 2 or before.rpartition("\n")[2].replace("```", "").count("`") % 2
    if not tag or "<think" in before.lower() or quoted:
        return text, ""
    return after.lstrip(), before.strip()


def _put(pieces: list[Piece], kind: str, text: str) -> None:
    if text:
        pieces.append((kind, text))


def _overlap(text: str, tag: str) -> int:
    """Length of the longest end of `text` that begins `tag`."""
    for size in range(min(len(tag) - 1, len(text)), 0, -1):
        if text.endswith(tag[:size]):
            return size
    return 0
