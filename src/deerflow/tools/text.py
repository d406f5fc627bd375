"""Text of files: UTF-8 whatever the locale, line ends and byte order marks kept."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from deerflow.errors import ToolError

BOM = "\ufeff"
MAX_TEXT = 64 << 20
"""Characters that a text may have after replacing."""
MAX_PLACES = 500_000
"""Occurrences that are replaced at once; each costs memory."""
_STRAY = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True, slots=True)
class Style:
    """How a file is written: with a byte order mark, with CRLF line ends."""

    bom: bool = False
    crlf: bool = False

    def dress(self, text: str) -> str:
        """New text in the style of the file; a plain file takes any text as it is."""
        if self.crlf:
            text = text.replace("\r\n", "\n").replace("\n", "\r\n")
        return BOM + text.removeprefix(BOM) if self.bom else text


def style_of(text: str) -> Style:
    """The style of a file, from its beginning; CRLF when most line ends are."""
    crlf = text.count("\r\n")
    return Style(text.startswith(BOM), crlf * 2 > text.count("\n"))


def decode(data: bytes) -> str:
    """Lossless text: bytes that are no UTF-8 become lone surrogates, which `encode` turns back."""
    return data.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """Bytes of a text that came from `decode` or from a model.

    Raises:
        ToolError: lone surrogates that stand for no byte.
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise ToolError(
            f"The text holds {text[error.start]!r}, half a character.",
            cure="Write whole characters, not \\ud… escapes.",
        ) from None


def shown(text: str) -> tuple[str, int]:
    r"""Text as a model can be sent it (stray bytes as \xNN), and how many bytes were stray."""
    plain = text.replace("\0", "\\x00")  # databases and some providers refuse a NUL
    return _STRAY.subn(lambda match: f"\\x{ord(match[0]) - 0xDC00:02x}", plain)


@dataclass(frozen=True, slots=True)
class Replaced:
    """A text after replacing, how often, and the line of the first replacement."""

    text: str
    count: int
    line: int


def replace(text: str, old: str, new: str, *, everywhere: bool = False) -> Replaced:
    r"""Replace exact text; only line ends may differ: `\n` in `old` also matches CRLF.

    Args:
        text: of the file; keeps its byte order mark and line ends.
        old: what must occur, once unless `everywhere`.
        new: takes on the line ends of the file.
        everywhere: replace each occurrence.

    Raises:
        ToolError: empty or equal texts, no occurrence, or several; says where and what to do.
    """
    wanted = old.removeprefix(BOM).replace("\r\n", "\n")
    if not wanted:
        raise ToolError(
            "`old` is empty.", cure="Name the text to replace; write_file makes new files."
        )
    if old == new:
        raise ToolError(
            "`old` and `new` are the same.", cure="Nothing is to be done, or fix `new`."
        )
    style = style_of(text)
    body = text.removeprefix(BOM)
    fresh = Style(crlf=style.crlf).dress(new)
    count = body.replace("\r\n", "\n").count(wanted)
    if count == 0:
        raise _not_found(body, wanted.split("\n"))
    if count > 1 and not everywhere:
        raise _ambiguous(body, list(islice(_occurrences(body, wanted), 5)), count)
    if count > MAX_PLACES or len(body) + count * (len(fresh) - len(wanted)) > MAX_TEXT:
        raise _too_much(count, len(body) + count * (len(fresh) - len(wanted)))
    found = list(_occurrences(body, wanted))
    parts: list[str] = []
    end = 0
    for start, stop in found:
        parts += (body[end:start], fresh)
        end = stop
    parts.append(body[end:])
    result = (BOM if style.bom else "") + "".join(parts)
    return Replaced(result, len(found), body.count("\n", 0, found[0][0]) + 1)


def _occurrences(body: str, wanted: str) -> Iterator[tuple[int, int]]:
    """Spans in `body` whose text is `wanted` but for CRLF; linear, whatever the texts."""
    plain = body.replace("\r\n", "\n")
    pairs = [match.start() - count for count, match in enumerate(re.finditer("\r\n", body))]
    at = plain.find(wanted)
    while at >= 0:
        end = at + len(wanted)
        yield at + bisect_left(pairs, at), end + bisect_left(pairs, end)
        at = plain.find(wanted, end)


def _too_much(count: int, size: int) -> ToolError:
    return ToolError(
        f"`old` occurs {count:,} times; the file would have {size:,} characters. "
        "Nothing was changed.",
        cure="Use bash (sed) for so much.",
    )


def _ambiguous(body: str, found: Sequence[tuple[int, int]], count: int) -> ToolError:
    numbers = [str(body.count("\n", 0, start) + 1) for start, _ in found]
    more = ", …" if count > len(found) else ""
    return ToolError(
        f"`old` occurs {count} times (lines {', '.join(numbers)}{more}); nothing was changed.",
        cure="Add lines around it until it is unique, or set replace_all.",
    )


def _not_found(body: str, lines: Sequence[str]) -> ToolError:
    cure = "Read the file again and copy the text exactly, without line numbers."
    near = _nearest(body.splitlines(), lines)
    where = ""
    if near is not None:
        number, text, blanks = near
        reason = "it differs in blanks or indentation" if blanks else "the nearest line"
        where = f" Line {number} ({reason}): {shown(text)[0][:200]}"
    return ToolError(f"`old` does not occur; nothing was changed.{where}", cure=cure)


def _nearest(body: Sequence[str], lines: Sequence[str]) -> tuple[int, str, bool] | None:
    """Line number, text, and whether only blanks differ; words in common decide, in linear time."""
    wanted = next((line for line in lines if line.strip()), "")
    squeezed = "".join(wanted.split())
    words = set(re.findall(r"\w+", wanted))
    best: tuple[float, int] | None = None
    for number, line in enumerate(body, start=1):
        if squeezed and "".join(line.split()) == squeezed:
            return number, line, True
        have = set(re.findall(r"\w+", line[:1000]))
        score = len(words & have) / max(1, len(words | have))
        if score > 0.3 and (best is None or score > best[0]):
            best = (score, number)
    return None if best is None else (best[1], body[best[1] - 1], False)
