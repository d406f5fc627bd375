"""Holds every event that a test makes against its documentation in events.py."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from fakes.tree import PACKAGE

FIELDS = re.compile(r'^    "(\w+)",  # \{([^}]*)\}', re.M)


def check_payload(type: str, payload: dict[str, Any]) -> None:
    """Fail when an event lacks a field, or has one that is not documented."""
    needed, optional = fields()[type]
    given = set(payload) - ({"task_id"} if "task_id" not in needed else set())
    assert needed <= given <= needed | optional, (type, sorted(payload))


@cache
def fields() -> dict[str, tuple[set[str], set[str]]]:
    """Event type → fields that it always has, and fields that it may have."""
    text = (PACKAGE / "events.py").read_text(encoding="utf-8")
    found: dict[str, tuple[set[str], set[str]]] = {}
    for name, listed in FIELDS.findall(text):
        names = listed.split(", ")
        optional = {each.removesuffix("?") for each in names if each.endswith("?")}
        found[name] = ({each for each in names if not each.endswith("?")}, optional)
    return found
