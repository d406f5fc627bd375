"""What `import deerflow` offers, and what it must not load."""

from __future__ import annotations

import json
import subprocess
import sys

import deerflow
from fakes.tree import imports, sources

FORBIDDEN = [
    "fastapi",
    "starlette",
    "sqlalchemy",
    "alembic",
    "docker",
    "kubernetes",
    "openai",
    "anthropic",
    "langchain_openai",
    "langchain_anthropic",
    "xllamacpp",
    "langchain_core",
    "langgraph",
    "pydantic",
    "aiohttp",
    "typer",
    "rich",
]
LAZY = {"xllamacpp", "langchain_openai", "langchain_anthropic", "openai", "anthropic", "docker"}
"""Extras: a module that imports one at its top cannot be loaded without it."""


def loaded_after(statement: str) -> set[str]:
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(  # fixed arguments
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(done.stdout))


def test_import_loads_nothing_heavy() -> None:
    assert loaded_after("import deerflow") & set(FORBIDDEN) == set()


def test_the_public_names_are_pinned() -> None:
    assert sorted(deerflow.__all__) == [
        "Agent",
        "AppConfig",
        "DeerFlowClient",
        "DeerFlowError",
        "Memory",
        "RunResult",
        "ScriptedChatModel",
        "SessionGoal",
        "Skill",
        "SubAgent",
        "ThreadState",
        "__version__",
        "create_chat_model",
        "make_lead_agent",
    ]


def test_every_public_name_loads_and_is_listed() -> None:
    for name in deerflow.__all__:
        assert getattr(deerflow, name) is not None
    assert set(deerflow.__all__) <= set(dir(deerflow))
    assert not hasattr(deerflow, "nothing_of_this_name")


def test_the_lead_agent_needs_no_extra() -> None:
    """The whole package but cli can be imported without any provider SDK."""
    modules = [
        source.module
        for source in sources()
        if not source.module.startswith(("deerflow.cli", "deerflow.gateway"))
        and ".migrations" not in source.module  # runs inside alembic only
        and ".frameworks.programs.with_" not in source.module  # run in other environments only
    ]
    statement = "\n".join(f"import {module}" for module in modules)
    assert loaded_after(statement) & LAZY == set()


def test_init_files_are_empty() -> None:
    wrong = [
        source.path
        for source in sources()
        if source.path.endswith("__init__.py")
        and source.module != "deerflow"
        and source.text.strip()
    ]
    assert wrong == []


def test_nothing_imports_from_the_package_root() -> None:
    wrong = [
        source.path
        for source in sources()
        if any(f"deerflow.{name}" in imports(source) for name in deerflow.__all__ if name[0] != "_")
    ]
    assert wrong == []
