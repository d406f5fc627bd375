"""What clients may write into the state of a thread, read and checked."""

from __future__ import annotations

from typing import Any, cast

from deerflow.errors import UsageError
from deerflow.runtime.wire_messages import messages_of, said

NODES = ("model", "tools")
"""Nodes of the agent that an update may be written as."""
WRITABLE = ("title", "messages", "artifacts", "todos")
TITLE = 200
"""Characters of a title."""


def read_update(given: dict[str, Any], as_node: str | None) -> dict[str, Any]:
    """The update as the state takes it.

    Args:
        given: any of WRITABLE.
        as_node: one of NODES or None.

    Raises:
        UsageError: unknown channel or node, or a value of the wrong form.
    """
    if as_node is not None and as_node not in NODES:
        raise UsageError(f"There is no node {as_node[:80]!r}.", cure=f"One of {', '.join(NODES)}.")
    unknown = sorted(set(given) - set(WRITABLE))
    if unknown:
        raise UsageError(
            f"{', '.join(unknown)[:200]} cannot be written.",
            cure=f"Write any of {', '.join(WRITABLE)}.",
        )
    update: dict[str, Any] = {}
    if given.get("title") is not None:
        update["title"] = _title(given["title"])
    if given.get("messages") is not None:
        update["messages"] = [said(message) for message in messages_of(given["messages"])]
    if given.get("artifacts") is not None:
        update["artifacts"] = _paths(given["artifacts"])
    if given.get("todos") is not None:
        update["todos"] = _todos(given["todos"])
    return update


def _title(value: Any) -> str:
    title = " ".join(value.split()) if isinstance(value, str) else ""
    if not title or len(title) > TITLE:
        raise UsageError(f"A title is text of 1 to {TITLE} characters.")
    return title


def _paths(value: Any) -> list[str]:
    paths = cast("list[Any]", value) if isinstance(value, list) else [None]
    if not all(isinstance(path, str) and path.startswith("/mnt/user-data/") for path in paths):
        raise UsageError("Artifacts are a list of paths below /mnt/user-data.")
    return [str(path) for path in paths]


def _todos(value: Any) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    for item in cast("list[Any]", value) if isinstance(value, list) else [None]:
        todo = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        content, status = todo.get("content"), todo.get("status")
        if not isinstance(content, str) or status not in ("pending", "in_progress", "completed"):
            raise UsageError(
                "A todo is {content, status}; status is pending, in_progress or completed."
            )
        found.append({"content": content, "status": status})
    return found
