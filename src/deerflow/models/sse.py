"""Cuts a server-sent event stream into its data payloads, whatever way the network split it."""

from __future__ import annotations


class SseDecoder:
    """Feed bytes as they arrive, get whole `data:` payloads back.

    Takes LF, CRLF and CR line ends, comments, other fields, several data lines in one event, and
    streams whose last blank line is missing. Works on bytes, so a character split between two reads
    is no matter.
    """

    __slots__ = ("_tail",)

    def __init__(self) -> None:
        self._tail = b""

    @property
    def held(self) -> int:
        """Bytes of the event that is not whole yet."""
        return len(self._tail)

    def feed(self, data: bytes) -> list[bytes]:
        """Payloads that `data` completed, in order."""
        text = self._tail + data if self._tail else data
        held = b""
        if b"\r" in text:
            if text.endswith(b"\r"):  # may be the first half of CRLF
                text, held = text[:-1], b"\r"
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        blocks = text.split(b"\n\n")
        self._tail = blocks.pop() + held
        return _payloads(blocks)

    def close(self) -> list[bytes]:
        """Payloads of a last event without its blank line."""
        rest, self._tail = self._tail.replace(b"\r", b"\n"), b""
        return _payloads([rest])


def _payloads(blocks: list[bytes]) -> list[bytes]:
    found: list[bytes] = []
    for block in blocks:
        if block.startswith(b"data: ") and b"\n" not in block:
            found.append(block[6:])
        elif block:
            found += _event(block)
    return found


def _event(block: bytes) -> list[bytes]:
    lines = [line[5:].removeprefix(b" ") for line in block.split(b"\n") if line[:5] == b"data:"]
    if len(lines) > 1 and all(line[:1] in b"{[" and line[-1:] in b"}]" for line in lines):
        return lines  # servers that forget the blank lines between events
    return [b"\n".join(lines)] if lines else []
