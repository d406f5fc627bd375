"""Prose is short, and the repository speaks of the product alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.tree import ROOT, sources

PAGE, ENTRY = 150, 25
FOLDERS = ("src", "tests", "docs", "examples", "bench", "scripts", "deploy", "skills")
TEXT = {".py", ".md", ".toml", ".yaml", ".yml", ".json", ".jsonl", ".sh", ".txt", ".lua", ""}
PRIVATE = re.compile(
    "|".join(
        (
            r"(?<![\w.-])/wo" + r"rk/",
            r"(?<![\w.-])/tmp/bri" + r"ef",
            r"shared/(des" + r"ign|ca" + r"ses|be" + r"nch)",
            r"\.libr" + r"ary/",
            r"\bpypi\.o" + r"rg",
            r"\bissues? #?\d+\b",
        )
    ),
    re.IGNORECASE,
)
"""Paths of a machine, hosts of registries, words about how the product is made."""


def pages() -> Iterator[Path]:
    yield from ROOT.glob("*.md")
    for folder in FOLDERS:
        for page in (ROOT / folder).rglob("*.md"):
            if not {"reference", "golden", "node_modules"} & set(page.parts):
                yield page


def texts() -> Iterator[Path]:
    yield from (file for file in ROOT.iterdir() if file.is_file() and file.suffix in TEXT)
    for folder in FOLDERS:
        for file in (ROOT / folder).rglob("*"):
            hidden = {"__pycache__", "results", "node_modules"} & set(file.parts)
            if file.is_file() and file.suffix in TEXT and not hidden:
                yield file


@pytest.mark.parametrize(
    "name", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "AGENTS.md", "CHANGELOG.md"]
)
def test_the_page_exists(name: str) -> None:
    assert (ROOT / name).stat().st_size > 0


def test_pages_are_short() -> None:
    skip = {"CHANGELOG.md", "SKILL.md"}
    long = {
        page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8").count("\n")
        for page in pages()
        if page.name not in skip
    }
    assert {name: lines for name, lines in long.items() if lines > PAGE} == {}


def test_changelog_entries_are_one_line() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    entries = [line for line in text.splitlines() if line.startswith("- ")]
    assert entries
    assert [entry for entry in entries if len(entry.split()) - 1 > ENTRY] == []
    other = [line for line in text.splitlines() if line and not line.startswith(("- ", "#"))]
    assert other == []


def test_modules_open_with_one_sentence() -> None:
    wrong = [
        source.path
        for source in sources()
        if source.path.endswith(".py") and source.text.strip() and not source.text.startswith('"""')
    ]
    assert wrong == []


def test_no_private_words() -> None:
    wrong: list[str] = []
    for file in texts():
        if file.name in ("uv.lock", ".git"):
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        wrong += [
            f"{file.relative_to(ROOT).as_posix()}:{text.count(chr(10), 0, match.start()) + 1}: "
            f"{match[0]}"
            for match in PRIVATE.finditer(text)
        ]
    assert wrong == []
