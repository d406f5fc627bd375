"""A thread before its first run, and how the end of a run shows on it."""

from __future__ import annotations

import secrets
import time
from typing import Any

from deerflow.storage.protocol import ThreadRow

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


def new_thread(user_id: str, thread_id: str, metadata: dict[str, Any] | None = None) -> ThreadRow:
    """The row of a thread that does not exist yet, with a key that no other thread has."""
    now = time.time()
    return ThreadRow(
        user_id, thread_id, secrets.token_hex(16), "", now, now, "idle", metadata or {}
    )
