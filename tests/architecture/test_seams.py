"""A seam is a contract, an in-memory implementation in the package, and one suite for all."""

from __future__ import annotations

from fakes.tree import PACKAGE, TESTS, packages

IN_MEMORY = {"models": "scripted.py"}
"""Where the in-memory implementation has a name of its own."""

CONTRACT_ONLY = {"tools"}
"""The kernel's RunContext is the one that fulfils it, and every test of a tool runs on it."""

NOT_YET: set[tuple[str, str]] = set()
"""(package, what is missing); may only shrink."""


def test_every_seam_has_an_in_memory_twin_and_a_suite() -> None:
    missing: set[tuple[str, str]] = set()
    for name in sorted(set(packages()) - CONTRACT_ONLY):
        folder = PACKAGE / name
        if not (folder / "protocol.py").exists():
            continue
        if not (folder / IN_MEMORY.get(name, "inmemory.py")).exists():
            missing.add((name, "in-memory"))
        suites = [*(TESTS / "conformance").glob(f"{name}/test_*.py")]
        suites += (TESTS / "conformance").glob(f"test_{name}*.py")
        if not suites:
            missing.add((name, "suite"))
    assert missing == NOT_YET
