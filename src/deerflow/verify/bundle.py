"""The checking program as one text, for an interpreter that has sympy and nothing of ours."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

_PARTS = ("trees", "judges", "verdict")
"""Modules of `programs`, each before those that import it; the last one is the entry."""
_PACKAGE = "deerflow.verify.programs"
_LOADER = """\
import sys, types
for name, text in {parts!r}:
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
module.main()
"""


@lru_cache(1)
def program() -> str:
    """The text; it reads JSON from standard input and prints JSON, see `programs/verdict.py`."""
    folder = Path(__file__).with_name("programs")
    parts = [
        (f"{_PACKAGE}.{name}", folder.joinpath(f"{name}.py").read_text(encoding="utf-8"))
        for name in _PARTS
    ]
    return _LOADER.format(parts=parts)
