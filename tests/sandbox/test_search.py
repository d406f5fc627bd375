"""Globs and greps: the quick way finds what the slow way finds."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.errors import ToolError
from deerflow.sandbox import search
from deerflow.sandbox.search import Clock, Glob, LineSearch, split_glob


def found(pattern: str, data: bytes, limit: int = 1000) -> list[tuple[int, str]]:
    lines = LineSearch(pattern, limit, Clock())
    lines.feed("f", io.BytesIO(data))
    return [(hit.line, hit.text) for hit in lines.hits]


PATTERNS = [
    "a", "^a", "b$", "^$", "a.b", "[^a]b", "[^x]*b$", r"\s", r"a\s*b", r"\Aa", r"b\Z",
    "(?=b)b", "[^a]++$", "(?i)A", "a|^b", r"\bb", "界.?a", r"(a)\1", "x*",
]  # fmt: skip


@given(
    pattern=st.sampled_from(PATTERNS),
    text=st.text(alphabet="ab \n界", max_size=60),
    crlf=st.booleans(),
)
def test_as_line_by_line_search(pattern: str, text: str, crlf: bool) -> None:
    lines = text.removesuffix("\n").split("\n") if text else []
    wanted = [
        (number, line)
        for number, line in enumerate(lines, start=1)
        if re.search(pattern.replace("[^a]++$", "[^a]+$"), line)
    ]
    data = text.replace("\n", "\r\n" if crlf else "\n").encode()
    assert found(pattern, data) == wanted


def test_lines_are_counted_across_blocks() -> None:
    data = b"".join(b"line %d\n" % number for number in range(1, 30_001))
    assert found("^line 29999$", data) == [(29_999, "line 29999")]
    assert [number for number, _ in found("000$", data)] == [n * 1000 for n in range(1, 31)]
    assert len(found("line", data, limit=7)) == 7


def test_a_pattern_that_runs_over_line_ends_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_BLOCK_SECONDS", 1e-6)
    data = b"bbbbbbbbb\n" * 6000 + b"bbba\n"
    assert found("[^x]*[^y]*a$", data) == [(6001, "bbba")]


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("*.py", ["a.py", ".hidden.py"]),
        ("**/*.py", ["a.py", ".hidden.py", "d/b.py", "d/e/c.py"]),
        ("d/**", ["d/b.py", "d/e/c.py", "d/e/界.md"]),
        ("**/e/*", ["d/e/c.py", "d/e/界.md"]),
        ("d/*", ["d/b.py"]),
        ("?.py", ["a.py"]),
        ("[!b].py", ["a.py"]),
        ("**/*.{md,txt}", ["d/e/界.md", "x{1}.txt"]),
        ("x{1}.txt", ["x{1}.txt"]),
        ("./a.py", ["a.py"]),
        ("D/*", []),
        ("*", ["a.py", ".hidden.py", "x{1}.txt"]),
    ],
)
def test_globs(pattern: str, paths: list[str]) -> None:
    every = ["a.py", ".hidden.py", "d/b.py", "d/e/c.py", "d/e/界.md", "x{1}.txt"]
    glob = Glob(pattern)
    assert [path for path in every if glob.matches(path)] == paths


def test_split_glob() -> None:
    assert split_glob("a/b/*.py") == ("a/b", "*.py")
    assert split_glob("/mnt/x/**/y") == ("/mnt/x", "**/y")
    assert split_glob("/*") == ("/", "*")
    assert split_glob("a.py") == ("", "a.py")
    assert split_glob("a/b.py") == ("a", "b.py")


def test_a_search_of_too_many_entries_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MAX_ENTRIES", 3)
    clock = Clock()
    for _ in range(3):
        clock.tick()
    with pytest.raises(ToolError, match="3 entries"):
        clock.tick()
