"""The page of commands is what the command line says today."""

from __future__ import annotations

from deerflow.cli.reference import page
from fakes.tree import ROOT


def test_the_page_is_current() -> None:
    kept = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert kept == page(), "run `make docs`"


def test_the_page_names_every_command() -> None:
    text = page()
    for name in ("run", "doctor", "threads list", "config check", "models pull", "sandbox build"):
        assert f"\n## deerflow {name}\n" in text
    for option in ("--json", "--thread ID", "--resume", "--expect FILE", "--max-turns N"):
        assert f"`{option}`" in text
