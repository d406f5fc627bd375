"""No ambient state and no patched parts: neither in the package nor in its tests."""

from __future__ import annotations

import ast

from fakes.tree import imports, sources, suite


def test_no_global_statement() -> None:
    wrong = [
        f"{source.path}:{node.lineno}"
        for source in (*sources(), *suite())
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Global)
    ]
    assert wrong == []


def test_no_mocks() -> None:
    forbidden = {"mock", "unittest.mock", "pytest_mock"}
    wrong = [source.path for source in (*sources(), *suite()) if forbidden & set(imports(source))]
    assert wrong == []


def test_the_environment_is_read_in_one_place() -> None:
    names = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}
    wrong = [
        f"{source.path}:{node.lineno}"
        for source in sources()
        if source.module != "deerflow.config.load"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Attribute)
        and node.attr in names
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
    ]
    assert wrong == []


def test_no_sync_and_async_twins() -> None:
    wrong: list[str] = []
    for source in sources():
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.ClassDef) or _inherits(node):
                continue
            plain = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            wrong += [
                f"{source.path}:{node.name}.{each.name}"
                for each in node.body
                if isinstance(each, ast.AsyncFunctionDef)
                and each.name.startswith("a")
                and each.name[1:] in plain
                and not each.name.startswith("a_")
            ]
    assert wrong == []


def _inherits(node: ast.ClassDef) -> bool:
    """Whether a foreign base class may ask for both names."""
    return any(ast.unparse(base) != "Protocol" for base in node.bases)


def test_a_catch_all_stands_only_at_the_four_edges() -> None:
    edges = {
        "deerflow.middlewares.tool_error_handling",
        "deerflow.gateway.problems",
        "deerflow.runtime.driving",
        "deerflow.gateway.channels.dispatch",
    }
    wrong = [
        f"{source.path}:{node.lineno}"
        for source in sources()
        if source.module not in edges
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in ("Exception", "BaseException"))
        and not _passes_on(node)
    ]
    assert wrong == []


def _passes_on(handler: ast.ExceptHandler) -> bool:
    """Whether the handler always ends by raising what it caught: cleaning up, not swallowing."""
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None
