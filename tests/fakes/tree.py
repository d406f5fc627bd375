"""The repository as the architecture tests see it: source files, test files, parsed once."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "deerflow"
TESTS = ROOT / "tests"


@dataclass(frozen=True, slots=True)
class Source:
    """One Python file.

    Attributes:
        path: relative to the repository, with forward slashes.
        text: its content.
        tree: its syntax.
    """

    path: str
    text: str
    tree: ast.Module

    @property
    def module(self) -> str:
        """Dotted name below `src`, such as `deerflow.config.load`."""
        dotted = self.path.removeprefix("src/").removesuffix(".py").replace("/", ".")
        return dotted.removesuffix(".__init__")


@cache
def sources() -> tuple[Source, ...]:
    """Every Python file of the package."""
    return _read(PACKAGE)


@cache
def suite() -> tuple[Source, ...]:
    """Every Python file below tests/."""
    return _read(TESTS)


def imports(source: Source) -> list[str]:
    """Dotted names that a file imports at run time, also inside functions.

    `from a import b` gives both `a` and `a.b`; imports under TYPE_CHECKING are left out.
    """
    names: list[str] = []
    for node in _runtime(source.tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def packages() -> list[str]:
    """Names of the packages right below deerflow."""
    return sorted(init.parent.name for init in PACKAGE.glob("*/__init__.py"))


def _runtime(node: ast.AST) -> list[ast.AST]:
    found: list[ast.AST] = [node]
    for child in ast.iter_child_nodes(node):
        typing_only = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        found += [] if typing_only else _runtime(child)
    return found


def _read(folder: Path) -> tuple[Source, ...]:
    found: list[Source] = []
    for file in sorted(folder.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        found.append(Source(file.relative_to(ROOT).as_posix(), text, ast.parse(text)))
    return tuple(found)
