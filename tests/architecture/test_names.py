"""Words that say nothing do not name files."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from fakes.tree import Source, sources, suite

EMPTY_WORDS = {
    "manager",
    "managers",
    "service",
    "services",
    "util",
    "utils",
    "helper",
    "helpers",
    "common",
    "base",
    "misc",
    "core",
}
ALLOWED: set[str] = set()
"""Files that may keep such a name; may only shrink."""


@pytest.mark.parametrize("files", [sources, suite], ids=["src", "tests"])
def test_no_file_has_a_name_that_says_nothing(files: object) -> None:
    assert callable(files)
    found: tuple[Source, ...] = files()
    wrong = [
        source.path
        for source in found
        if EMPTY_WORDS & set(PurePosixPath(source.path).stem.split("_"))
        and source.path not in ALLOWED
    ]
    assert wrong == []


def test_no_file_repeats_the_name_of_its_folder() -> None:
    wrong = [
        source.path
        for source in sources()
        for path in [PurePosixPath(source.path)]
        if path.parent.name != "deerflow"
        and path.stem.endswith(f"_{path.parent.name.removesuffix('s')}")
    ]
    assert wrong == []
