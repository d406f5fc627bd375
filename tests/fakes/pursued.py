"""Stories of a run that pursues a goal: what the lead does, and what the judge says of it."""

from __future__ import annotations

import json
from typing import Any

USAGE = {"input": 10, "output": 1}


def _works(place: str, when: str = "") -> dict[str, Any]:
    call = {"name": "effect", "args": {"place": place}, "id": "call_0"}
    return {"calls": [call], "usage": USAGE, **({"when": when} if when else {})}


def _says(text: str, when: str = "") -> dict[str, Any]:
    turn = {"text": text, "gap_ms": 1, "usage": USAGE}
    return {**turn, "when": when} if when else turn


def _judges(kind: str, reason: str, after: str) -> dict[str, Any]:
    verdict = json.dumps({"verdict": kind, "reason": reason})
    return _says(verdict, f"(?s)# Goal.*agent: {after}")


PURSUED: dict[str, list[dict[str, Any]]] = {
    "goal": [_works("g1"), _says("Part 1.")],
    "judge": [
        _judges("done", "All parts.", "Part 3"),
        _judges("continue", "three", "Part 2"),
        _judges("continue", "two", "Part 1"),
        _works("g2", "Missing: two"),
        _says("Part 2.", "Missing: two"),
        _works("g3", "Missing: three"),
        _says("Part 3.", "Missing: three"),
    ],
}
"""The objective names the story "judge", so continuations are told by it too."""
