"""Nothing is large: files, classes, functions, parameter lists."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

import pytest

from fakes.tree import Source, sources, suite

FILE, CLASS, FUNCTION, PARAMETERS = 500, 250, 80, 6

Definition = ast.FunctionDef | ast.AsyncFunctionDef

ALLOWED: set[str] = set()
"""Entries such as "src/deerflow/x.py:f" that may be larger; may only shrink."""


def functions(source: Source) -> Iterator[tuple[str, Definition]]:
    for node in ast.walk(source.tree):
        if isinstance(node, Definition):
            yield f"{source.path}:{node.name}", node


def lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def parameters(function: Definition) -> int:
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


@pytest.mark.parametrize("files", [sources, suite], ids=["src", "tests"])
def test_files(files: Callable[[], tuple[Source, ...]]) -> None:
    large = {s.path: s.text.count("\n") for s in files() if s.text.count("\n") > FILE}
    assert set(large) - ALLOWED == set(), large


def test_classes() -> None:
    large = {
        f"{source.path}:{node.name}": lines(node)
        for source in sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef) and lines(node) > CLASS
    }
    assert set(large) - ALLOWED == set(), large


def test_functions() -> None:
    large = {
        name: lines(function)
        for source in (*sources(), *suite())
        for name, function in functions(source)
        if lines(function) > FUNCTION
    }
    assert set(large) - ALLOWED == set(), large


def test_parameters() -> None:
    many = {
        name: parameters(function)
        for source in sources()
        for name, function in functions(source)
        if parameters(function) > PARAMETERS and not _is_command(function)
    }
    assert set(many) - ALLOWED == set(), many


def _is_command(function: Definition) -> bool:
    """Whether the parameters are the options of a command line, which typer reads off them."""
    return any(".command" in ast.unparse(each) for each in function.decorator_list)


def test_the_allow_list_only_names_what_exists() -> None:
    present = {name for source in (*sources(), *suite()) for name, _ in functions(source)}
    present |= {source.path for source in (*sources(), *suite())}
    present |= {
        f"{source.path}:{node.name}"
        for source in sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef)
    }
    assert present >= ALLOWED
