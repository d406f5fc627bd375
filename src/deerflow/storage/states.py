"""How the end of a run shows on its thread."""

from __future__ import annotations

from typing import Any

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
