"""Reads one check from standard input and prints what comes of it; runs inside a sandbox.

In: {"judge", "facts", "candidates": [...], "declared", "hedged", "union"} or, for a letter,
{"judge", "facts", "options": {"A": answer or null}}. Out: {"verdict": "right" | "wrong" | "unsure",
"detail"} or {"holds": ["A"]}.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from deerflow.verify.programs.judges import JUDGES, Judged
from deerflow.verify.programs.trees import BoundsError

UNDECIDED = (ArithmeticError, NotImplementedError, RecursionError, TypeError, ValueError)
"""What sympy raises where it cannot decide."""


def judged(data: dict[str, Any], answer: Any) -> Judged:
    """One answer; one that passes the bounds is not judged."""
    try:
        return JUDGES[data["judge"]](data["facts"], answer)
    except BoundsError as error:
        return "unsure", f"The check came to no result: {error}."
    except UNDECIDED:
        return "unsure", "The check came to no result."


def free_text(data: dict[str, Any]) -> Judged:
    """The answer that is meant, in the light of the others that the text holds."""
    candidates = data["candidates"]
    first = judged(data, candidates[0])
    others = [judged(data, answer)[0] for answer in candidates[1:]]
    if first[0] == "right" and data["hedged"] and "wrong" in others:
        return "unsure", "The answer leaves more than one result open."
    if first[0] == "wrong" and "right" in others:
        if data["union"]:
            return "right", "The answer agrees with the computed result."
        if not data["declared"]:
            return "unsure", "The answer does not say which of its results is meant."
    return first


def said(data: dict[str, Any]) -> dict[str, Any]:
    """What comes of one check."""
    if "options" in data:
        holds = [
            letter
            for letter, answer in data["options"].items()
            if answer is not None and judged(data, answer)[0] == "right"
        ]
        return {"holds": holds}
    verdict, detail = free_text(data)
    return {"verdict": verdict, "detail": detail}


def main() -> None:
    """See the top of the file."""
    sys.stdout.write(json.dumps(said(json.loads(sys.stdin.buffer.read()))))


if __name__ == "__main__":
    main()
