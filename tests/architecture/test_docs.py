"""Generated pages are what the code says today."""

from __future__ import annotations

import importlib.util
from types import ModuleType

from fakes.tree import ROOT


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_script", ROOT / "scripts" / "docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_configuration_keys_is_current() -> None:
    page = ROOT / "docs" / "reference" / "config.md"
    assert page.read_text(encoding="utf-8") == script().configuration(), "run `make docs`"
