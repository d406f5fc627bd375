"""How the end of a run shows on its thread."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deerflow.storage.conversations import RunRow

THREAD_STATUS = {
    "success": "idle",
    "cancelled": "idle",
    "interrupted": "interrupted",
    "error": "error",
    "timeout": "error",
}
"""Run status → thread status."""

ABANDONED: dict[str, Any] = {
    "code": "process_died",
    "message": "The process that ran this ended before the run did.",
}
"""Error of a run whose process died."""

QUEUED = "A run of this thread is queued."
ACTIVE = "Another run of this thread is active."


def ended_event(status: str, error: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
    """The last event of a run that nobody executes any more."""
    payload: dict[str, Any] = {
        "status": status,
        "outcome": None,
        "usage": {},
        "error": error,
        "artifacts": [],
        "at": time.time(),
    }
    return "run_ended", payload


def is_to_take_back(run: RunRow) -> bool:
    """Whether a run was stopped to leave nothing behind; it is removed when that is done."""
    return (run.status, run.cancel) == ("cancelled", "rollback")


PINNED = "deerflow_pinned"
"""Key of a thread's metadata: true puts it on top of the list."""


def has_metadata(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether all wanted keys have exactly the wanted values; true is not 1."""
    return all(
        key in metadata
        and metadata[key] == value
        and isinstance(metadata[key], bool) == isinstance(value, bool)
        for key, value in wanted.items()
    )
