"""Where the user's requests stand in a transcript."""

from __future__ import annotations

import re
from collections.abc import Sequence

from langchain_core.messages import AnyMessage, HumanMessage

from deerflow.agent.deliverables import REMINDER

COMPACTED = "deerflow_compacted"
"""additional_kwargs of the answer to `/compact`."""
_COMPACT = re.compile(r"\s*/compact(?:\s+(?P<hint>\S.*?))?\s*\Z", re.DOTALL | re.IGNORECASE)


def compact_hint(text: str) -> str | None:
    """What `/compact` is to keep above all, "" without a hint; None for any other text."""
    found = _COMPACT.match(text) if "/compact" in text[:40].lower() else None
    return None if found is None else found["hint"] or ""


def is_request(message: AnyMessage) -> bool:
    """Whether the user wrote it (reminders of ours are stored as human messages too)."""
    return isinstance(message, HumanMessage) and REMINDER not in message.additional_kwargs


def last_request(messages: Sequence[AnyMessage]) -> int:
    """Index of the newest request, -1 when there is none."""
    for index in range(len(messages) - 1, -1, -1):
        if is_request(messages[index]):
            return index
    return -1
