"""Frames as bytes, the ids that they carry, and the cache that readers of a thread share."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import orjson

OVERHEAD = 300
"""Bytes that an entry of the cache takes beside its value, roughly."""
HEARTBEAT = b": heartbeat\n\n"

_ID = re.compile(
    r"(?P<seq>\d{1,15})(?::\+(?P<rank>\d{1,2}))?"
    r"(?::(?P<message>[\w.~-]{1,200}):(?P<offset>\d{1,12})(?:~(?P<thinking>\d{1,12}))?)?"
)


@dataclass(frozen=True, slots=True)
class Position:
    """How far a reader has come. Its text is opaque to clients.

    Attributes:
        seq: every frame of the events up to here was sent.
        message_id: of the message that was being written, "" when none was.
        offset, thinking: characters of its text and its reasoning that were sent.
        rank: frames of event seq + 1 up to this rank (see `frames.parts`) were sent as well.
    """

    seq: int
    message_id: str = ""
    offset: int = 0
    thinking: int = 0
    rank: int = -1

    def __str__(self) -> str:
        if not self.message_id:
            return self.event
        thinking = f"~{self.thinking}" if self.thinking else ""
        return f"{self.event}:{self.message_id}:{self.offset}{thinking}"

    @property
    def event(self) -> str:
        """The part that is the same for all readers."""
        return f"{self.seq}:+{self.rank}" if self.rank >= 0 else str(self.seq)


def position(text: str) -> Position | None:
    """The position of an id, None when no server of ours gave it."""
    found = _ID.fullmatch(text)
    if found is None:
        return None
    return Position(
        int(found["seq"]),
        found["message"] or "",
        int(found["offset"] or 0),
        int(found["thinking"] or 0),
        int(found["rank"] or -1),
    )


def frame(event: str, data: bytes, id: str = "") -> bytes:
    """One frame; without an id the client keeps the one before."""
    if id:
        return b"event: %b\ndata: %b\nid: %b\n\n" % (event.encode(), data, id.encode())
    return b"event: %b\ndata: %b\n\n" % (event.encode(), data)


def body(value: Any) -> bytes:
    """JSON of a frame: one line, no raw newlines."""
    try:
        return orjson.dumps(value)
    except TypeError:  # a lone surrogate, which has no UTF-8
        return json.dumps(value).encode()


class FrameCache:
    """Encoded frames of the newest events, shared by readers who do not share a whole reading.

    Args:
        limit: bytes that are kept at most; the oldest go first.
    """

    def __init__(self, limit: int = 256 << 10) -> None:
        self._limit = limit
        self._size = 0
        self._held: dict[tuple[Any, ...], bytes] = {}

    def get(self, key: tuple[Any, ...]) -> bytes | None:
        """What was put under the key, None when it is gone."""
        return self._held.get(key)

    def put(self, key: tuple[Any, ...], value: bytes) -> bytes:
        """Keep a value and hand it back."""
        if key not in self._held and len(value) <= self._limit // 4:
            self._held[key] = value
            self._size += len(value) + OVERHEAD
            while self._size > self._limit:
                self._size -= len(self._held.pop(next(iter(self._held)))) + OVERHEAD
        return value
