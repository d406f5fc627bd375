"""The shapes of replies as JSON schemas, for small models that are held to them.

The lengths keep a call of the embedded model below 200 tokens in European scripts: it writes
15 to 40 of them a second, and left alone it writes until a limit ends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deerflow.verify.messages import Problem
from deerflow.verify.protocol import Ask

REASONING = 120
RESPONSE = 160
"""Characters."""

_SURE = [0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
"""Confidences to choose from."""


def form(ask: Ask) -> dict[str, Any] | None:
    """Schema of the reply to an ask; None for a re-ask, whose reader is not known from it."""
    if ask.step == "reask":
        return None
    if ask.step == "adjudicate":
        return _object({"reason": _text(REASONING), "choice": {"enum": [0, 1, 2]}})
    answer = _answer(ask.problem)
    if ask.step == "review":
        verdict = {"accepted": {"type": "boolean"}, "feedback": _text(REASONING)}
        return _object({"checked_answer": answer, **verdict})
    fields = {"reasoning": _text(REASONING), "response": answer, "confidence": {"enum": _SURE}}
    return _object(fields)


def _answer(problem: Problem) -> dict[str, Any]:
    letters = [option.strip()[:1] for option in problem.options]
    if problem.kind == "letter" and letters:
        return {"enum": letters}
    return {**_text(RESPONSE), "minLength": 1}


def _text(longest: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": longest}


def _object(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(fields),
        "required": list(fields),
        "additionalProperties": False,
    }
