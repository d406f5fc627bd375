"""Message processing: what of an exchange is worth an extraction, cut to a size, in batches."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from deerflow.memory.deermem.chitchat import is_chitchat
from deerflow.memory.protocol import Exchange
from deerflow.storage.protocol import QueuedExchange

logger = logging.getLogger(__name__)

USER_CHARS = 8_000
"""Of the user's words that are queued: head and tail. Facts about a user are short."""
ANSWER_CHARS = 2_000
"""Of the answer: it only explains what the user's words refer to."""
BATCH_CHARS = 24_000
"""Of all exchanges in one call of the updater, about 6,000 tokens."""
CUT = "\n[…]\n"

_FRAMES = re.compile(
    r"<(system-reminder|uploads|memory|untrusted-content)(?: [^<>]*)?>.*?(?:</\1>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
"""Frames that the harness puts around a request; an unclosed one reaches to the end."""


def cleaned(exchange: Exchange) -> Exchange | None:
    """The exchange as it is queued; None when there is nothing to learn from it.

    Frames of the harness are taken out, long texts keep head and tail, chit-chat is dropped.
    """
    user = _FRAMES.sub("", exchange.user).strip()
    if not user or is_chitchat(user):
        return None
    answer = _FRAMES.sub("", exchange.answer).strip()
    return replace(exchange, user=cut(user, USER_CHARS), answer=cut(answer, ANSWER_CHARS))


def cut(text: str, limit: int) -> str:
    """At most `limit` characters: two thirds of them from the head, the rest from the tail."""
    if len(text) > limit:
        room = limit - len(CUT)
        head = room * 2 // 3
        text = f"{text[:head]}{CUT}{text[len(text) - (room - head) :]}"
    return _sendable(text)


def _sendable(text: str) -> str:
    """Without NUL and lone surrogates, which no JSON column takes."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")


@dataclass(frozen=True, slots=True)
class Batch:
    """Exchanges of one thread that go into one call of the updater, oldest first."""

    entries: tuple[QueuedExchange, ...]
    exchanges: tuple[Exchange, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the entries."""
        return tuple(entry.entry_id for entry in self.entries)


def batches(entries: Sequence[QueuedExchange], *, limit: int = BATCH_CHARS) -> list[Batch]:
    """Entries of one thread coalesced: as few batches as the size allows.

    An entry that cannot be read is part of a batch without an exchange: it is done with it.

    Args:
        entries: as claimed, oldest first.
        limit: characters of exchanges in a batch; a single exchange may be longer.
    """
    found: list[Batch] = []
    held: list[QueuedExchange] = []
    texts: list[Exchange] = []
    size = 0
    for entry in entries:
        exchange = _read(entry)
        more = len(exchange.user) + len(exchange.answer) if exchange else 0
        if held and size + more > limit:
            found.append(Batch(tuple(held), tuple(texts)))
            held, texts, size = [], [], 0
        held.append(entry)
        size += more
        if exchange is not None:
            texts.append(exchange)
    return [*found, Batch(tuple(held), tuple(texts))] if held else found


def _read(entry: QueuedExchange) -> Exchange | None:
    payload: dict[str, Any] = entry.payload
    user, answer = payload.get("user"), payload.get("answer")
    if not isinstance(user, str) or not user.strip():
        logger.warning("memory: the queued exchange %s holds no words of a user", entry.entry_id)
        return None
    at = payload.get("at")
    return Exchange(
        user=cut(user, USER_CHARS),
        answer=cut(answer, ANSWER_CHARS) if isinstance(answer, str) else "",
        message=str(payload.get("message") or ""),
        at=float(at) if isinstance(at, int | float) else entry.queued_at,
        thread=entry.thread_id,
    )
