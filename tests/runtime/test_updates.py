"""Updates of states as clients write them."""

from __future__ import annotations

from typing import Any

import pytest

from deerflow.errors import UsageError
from deerflow.runtime.updates import TITLE, read_update


def test_an_update_is_read() -> None:
    given: dict[str, Any] = {
        "title": " A  title ",
        "messages": {"role": "user", "content": "hi", "id": "m"},
        "artifacts": ["/mnt/user-data/outputs/a"],
        "todos": [{"content": "x", "status": "completed", "more": 1}],
    }
    found = read_update(given, "tools")
    assert found["title"] == "A title"
    assert [(m.type, m.id, m.text) for m in found["messages"]] == [("human", "m", "hi")]
    assert found["artifacts"] == given["artifacts"]
    assert found["todos"] == [{"content": "x", "status": "completed"}]
    assert read_update({"title": None, "messages": None}, None) == {}


@pytest.mark.parametrize(
    ("given", "node"),
    [
        ({"memory": {}}, None),
        ({}, "__start__"),
        ({"title": "x" * (TITLE + 1)}, None),
        ({"artifacts": [5]}, None),
        ({"todos": [5]}, None),
    ],
    ids=str,
)
def test_what_cannot_be_written_names_the_cure(given: dict[str, Any], node: str | None) -> None:
    with pytest.raises(UsageError):
        read_update(given, node)
