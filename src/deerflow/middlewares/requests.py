"""Where the user's requests stand in a transcript."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AnyMessage, HumanMessage

from deerflow.agent.deliverables import REMINDER


def is_request(message: AnyMessage) -> bool:
    """Whether the user wrote it (reminders of ours are stored as human messages too)."""
    return isinstance(message, HumanMessage) and REMINDER not in message.additional_kwargs


def last_request(messages: Sequence[AnyMessage]) -> int:
    """Index of the newest request, -1 when there is none."""
    for index in range(len(messages) - 1, -1, -1):
        if is_request(messages[index]):
            return index
    return -1
