"""Imports go downward, floor 2 meets at protocols, each library stays in its place."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from fakes.tree import ROOT, imports, packages, sources

FLOOR_2 = {"models", "sandbox", "storage", "guardrails", "memory", "skills", "mcp", "tools"}

LANGCHAIN = (
    "deerflow.models",
    "deerflow.tools",
    "deerflow.agent",
    "deerflow.middlewares",
    "deerflow.subagents",
    "deerflow.verify",
    "deerflow.workflows",
    "deerflow.storage.checkpoints",
    "deerflow.runtime",
    "deerflow.lead",
    "deerflow.plugins",
    "deerflow.wiring",
    "deerflow.factory",
    "deerflow.gateway",
    "deerflow.client",
)
FOREIGN = "deerflow.exam.frameworks.programs.with_"
"""Scripts that run in environments of other frameworks; nothing of ours imports them."""

PLACES = {
    "langchain": LANGCHAIN,
    "langchain_core": LANGCHAIN,
    "langgraph": (*LANGCHAIN, "deerflow.storage"),  # its checkpoints and its store
    "langchain_openai": (),
    "langchain_anthropic": (),
    "openai": (),
    "anthropic": (),
    "xllamacpp": ("deerflow.models",),
    "dbos": ("deerflow.runtime.ledger", "deerflow.runtime.ledger_database"),
    "langgraph_sdk": ("deerflow.runtime.standard",),
    "cronsim": ("deerflow.runtime.occurrences",),
    "psycopg": ("deerflow.storage.postgres",),
    "redis": ("deerflow.storage.redis",),
    "argon2": ("deerflow.gateway.auth",),
    "authlib": ("deerflow.gateway.auth",),
    "joserfc": ("deerflow.gateway.auth",),
    "markitdown": ("deerflow.gateway.documents",),
    "pypdfium2": ("deerflow.gateway.documents",),
    "prometheus_client": ("deerflow.telemetry",),
    "opentelemetry": ("deerflow.telemetry",),
    "fastapi": ("deerflow.gateway",),
    "starlette": ("deerflow.gateway",),
    "sqlalchemy": (
        "deerflow.storage",
        "deerflow.memory.deermem.database",
        "deerflow.memory.deermem.sql",
        "deerflow.memory.deermem.tables",
        "deerflow.runtime.ledger_database",
    ),
    "alembic": ("deerflow.storage",),
    "docker": ("deerflow.sandbox.docker",),
    "kubernetes": ("deerflow.sandbox.kubernetes",),
    "typer": ("deerflow.cli", "deerflow.gateway.commands"),
    "rich": ("deerflow.cli", "deerflow.tui"),
}
"""Library → modules (and what is below them) that may import it."""


def inside(module: str, places: tuple[str, ...]) -> bool:
    return any(module == place or module.startswith(f"{place}.") for place in places)


def test_import_linter_is_content() -> None:
    """In a process of its own: it configures logging, which would silence every other logger."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_every_package_of_floor_2_is_in_the_contract() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    [seams] = [item for item in settings["contracts"] if item["id"] == "seams"]
    present = {f"deerflow.{name}" for name in packages() if name in FLOOR_2}
    assert set(seams["modules"]) == present


def test_libraries_stay_in_their_places() -> None:
    wrong = sorted(
        f"{source.module} imports {name}"
        for source in sources()
        for name in {found.split(".")[0] for found in imports(source)}
        if name in PLACES and not inside(source.module, PLACES[name])
        if not source.module.startswith(FOREIGN)
    )
    assert wrong == []


def test_programs_of_other_frameworks_stand_apart() -> None:
    programs = [source for source in sources() if source.module.startswith(FOREIGN)]
    assert len(programs) == 4
    reached = [name for each in programs for name in imports(each) if name.startswith("deerflow")]
    reaching = [s.path for s in sources() if any(n.startswith(FOREIGN) for n in imports(s))]
    assert (reached, reaching) == ([], [])


IMPLEMENTATIONS = ("sandbox", "storage", "memory", "guardrails", "skills")
"""Packages whose real parts are named by wiring alone."""

WORDS = {"protocol", "paths", "owner", "approvals", "openat", "files", "harden", "states"}
"""Their modules that anyone above may import: contracts and plain rules."""

MAY_NAME = (
    "deerflow.wiring",
    "deerflow.cli.doctor",
    "deerflow.cli.sandbox",
    "deerflow.runtime.ledger_database",  # opens DBOS's file with the driver of ours
)


def test_only_wiring_names_implementations() -> None:
    wrong: set[str] = set()
    for source in sources():
        for name in imports(source):
            root, package, module = (*name.split("."), "", "", "")[:3]
            if root != "deerflow" or package not in IMPLEMENTATIONS or not module:
                continue
            if module not in WORDS and not inside(
                source.module, (f"deerflow.{package}", *MAY_NAME)
            ):
                wrong.add(f"{source.module} imports {root}.{package}.{module}")
    assert sorted(wrong) == []
