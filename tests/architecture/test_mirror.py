"""Tests mirror the tree."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from fakes.tree import PACKAGE, TESTS, packages, suite

BESIDE = {"architecture", "conformance", "golden", "journeys", "fakes"}
"""Folders of tests that belong to no single package."""


def test_every_folder_is_a_package() -> None:
    folders = {
        path.name for path in TESTS.iterdir() if path.is_dir() and path.name != "__pycache__"
    }
    assert folders - BESIDE - set(packages()) == set()


def test_every_package_has_a_folder() -> None:
    filled = {
        name
        for name in packages()
        if [file for file in (PACKAGE / name).rglob("*.py") if file.name != "__init__.py"]
    }
    assert {name for name in filled if not list((TESTS / name).glob("test_*.py"))} == set()


def test_every_test_file_is_named_after_a_module() -> None:
    wrong: list[str] = []
    for source in suite():
        path = PurePosixPath(source.path)
        if not path.name.startswith("test_") or path.parts[1] in BESIDE:
            continue
        package = PACKAGE / path.parts[1] if len(path.parts) > 2 else PACKAGE
        modules = {file.stem for file in package.rglob("*.py")} | {
            folder.name for folder in package.rglob("*") if folder.is_dir()
        }
        subject = path.stem.removeprefix("test_")
        known = any(
            subject == name or subject.startswith((f"{name}_", f"{name.removesuffix('s')}_"))
            for name in modules
        )
        if not known and not re.match(r"p\d\d_", subject):
            wrong.append(source.path)
    assert wrong == []


def test_no_init_files() -> None:
    assert [source.path for source in suite() if source.path.endswith("__init__.py")] == []
