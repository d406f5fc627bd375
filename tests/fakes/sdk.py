"""What the journeys of both SDKs share: the process that they talk to."""

from __future__ import annotations

from typing import Any

HELLO = {"text": "Good day to you.", "when": "Hello", "times": 100}
SLOW = {
    "text": "One word comes after another, and nobody is in a hurry here at all. " * 20,
    "when": "slowly",
    "gap_ms": 50,
    "times": 100,
}
SCRIPT: list[dict[str, Any]] = [HELLO, SLOW]
