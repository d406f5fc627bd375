"""What we ship with carries no AGPL or GPL: the licences of all runtime dependencies are read."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement

COPYLEFT = re.compile(r"\b(A?GPL|GNU (Affero )?General Public)", re.IGNORECASE)
LESSER = re.compile(r"\bLGPL|Lesser General Public", re.IGNORECASE)


def closure(name: str, extras: frozenset[str]) -> set[str]:
    """Names of all installed distributions that a distribution needs at run time."""
    found: set[str] = set()
    todo = [(name, extras)]
    while todo:
        current, wanted = todo.pop()
        try:
            needs = distribution(current).requires or []
        except PackageNotFoundError:
            continue  # for another platform or Python
        if current in found:
            continue
        found.add(current)
        for text in needs:
            need = Requirement(text)
            marker = need.marker
            if marker is None or any(marker.evaluate({"extra": e}) for e in ("", *wanted)):
                todo.append((need.name.lower(), frozenset(need.extras)))
    return found


def licence(name: str) -> str:
    """All that a distribution's metadata says of its licence, on one line."""
    metadata = distribution(name).metadata
    classifiers = [c for c in metadata.get_all("Classifier", []) if c.startswith("License")]
    said = [metadata.get("License-Expression") or "", (metadata.get("License") or "")[:200]]
    return " ".join([*said, *classifiers]).replace("\n", " ")


def test_no_runtime_dependency_is_gpl() -> None:
    extras = frozenset(distribution("deerflow").metadata.get_all("Provides-Extra", []))
    names = closure("deerflow", extras)
    assert {"langgraph", "langchain-core", "aiohttp", "sqlalchemy", "xllamacpp"} <= names
    wrong = {n: licence(n) for n in names if COPYLEFT.search(LESSER.sub("", licence(n)))}
    assert wrong == {}
