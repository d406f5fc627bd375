"""Lines of code are lines that do something."""

from __future__ import annotations

from pathlib import Path

from deerflow.exam.frameworks.code import code_lines
from deerflow.exam.frameworks.registry import FRAMEWORKS

PROGRAM = '''"""A module
of two lines."""

# a comment
x = """text
that counts"""  # two


def f(
    a,
):
    """Say nothing."""

    return a  # seven
'''


def test_blank_lines_comments_and_docstrings_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(PROGRAM, "utf-8")
    assert code_lines(tmp_path / "p.py") == 6


def test_every_program_is_small() -> None:
    whole = {name: each.program.read_text("utf-8").count("\n") for name, each in FRAMEWORKS.items()}
    assert {name for name, lines in whole.items() if lines > 200} == set()
    assert all(10 < code_lines(each.program) < 150 for each in FRAMEWORKS.values())
