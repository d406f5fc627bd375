"""Lines of scripted roles as JSON, and what goes wrong with them."""

from __future__ import annotations

import json
from typing import Any

from deerflow.errors import LimitError, ModelError
from deerflow.verify.inmemory import ScriptedRoles, TableChecker

__all__ = [
    "ScriptedRoles",
    "TableChecker",
    "answered",
    "chosen",
    "judged",
    "no_budget",
    "no_model",
]


def answered(response: str, reasoning: str = "", confidence: float | None = None) -> str:
    """A resolver's or blind validator's reply."""
    found: dict[str, Any] = {"reasoning": reasoning, "response": response}
    if confidence is not None:
        found["confidence"] = confidence
    return json.dumps(found, ensure_ascii=False)


def judged(accepted: object, checked: str = "", feedback: str = "") -> str:
    """A validator's verdict."""
    return json.dumps(
        {"checked_answer": checked, "accepted": accepted, "feedback": feedback}, ensure_ascii=False
    )


def chosen(choice: object) -> str:
    """An adjudicator's choice."""
    return json.dumps({"reason": "worked out", "choice": choice})


def no_model() -> ModelError:
    return ModelError("The endpoint is gone.", model="scripted")


def no_budget() -> LimitError:
    return LimitError("The budget is used up.", rule="tokens", used=10, limit=10)
