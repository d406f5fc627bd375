"""References to the environment inside strings."""

from __future__ import annotations

from typing import Any

import pytest

from deerflow.config.document import Path
from deerflow.config.variables import expand

ENVIRON = {"KEY": "value", "EMPTY": "", "DOLLARS": "a$KEY$$", "_u1": "u"}


def resolve(value: Any, **options: bool) -> tuple[Any, list[tuple[Path, str]]]:
    found: list[tuple[Path, str]] = []
    result = expand(value, ENVIRON, lambda path, text: found.append((path, text)), **options)
    return result, found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$KEY", "value"),
        ("${KEY}", "value"),
        ("https://$KEY.example/${KEY}s", "https://value.example/values"),
        ("${_u1}x", "ux"),
        ("[$EMPTY]", "[]"),
        ("$EMPTY", ""),
        ("$$KEY", "$KEY"),
        ("pa$$w", "pa$w"),
        ("$$$KEY", "$value"),
        ("a$1", "a$1"),
        ("5 $", "5 $"),
        ("$", "$"),
        ("$-x $. $é", "$-x $. $é"),
        ("$DOLLARS", "a$KEY$$"),
        ("plain", "plain"),
    ],
)
def test_replaced_text(text: str, expected: str) -> None:
    assert resolve(text) == (expected, [])


def test_everything_inside_is_resolved_and_keys_stay() -> None:
    value = {"$KEY": ["$KEY", 1, None, {"a": "${KEY}"}], "b": True}
    assert resolve(value) == ({"$KEY": ["value", 1, None, {"a": "value"}], "b": True}, [])


def test_a_missing_name_is_reported_with_its_place() -> None:
    _, found = resolve({"a": [{"b": "x$NOPE"}, "$ALSO"]})
    assert [path for path, _ in found] == [("a", 0, "b"), ("a", 1)]
    assert "NOPE" in found[0][1]
    assert "$$" in found[0][1]


def test_a_missing_name_can_mean_empty() -> None:
    assert resolve("x$NOPE", missing_is_empty=True) == ("x", [])


@pytest.mark.parametrize("text", ["${", "${}", "${KEY", "${KEY:-x}", "${1}"])
def test_an_open_brace_is_reported(text: str) -> None:
    result, [(path, message)] = resolve({"a": text})
    assert path == ("a",)
    assert "$${" in message
    assert result == {"a": text}
