"""Which memory the configuration names, and what it costs to have one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from deerflow.config.schema import AppConfig, MemoryBackendConfig
from deerflow.errors import ConfigError
from deerflow.memory.deermem.file import FileMemoryStorage
from deerflow.memory.deermem.sql import SqlMemoryStorage
from deerflow.memory.inmemory import InMemoryStorage
from deerflow.memory.noop import NoopMemoryManager
from deerflow.memory.protocol import Fact, MemoryStorage
from deerflow.runtime.request import RunRequest
from deerflow.wiring.memory import make_memory_storage, open_memory
from fakes.harness import loaded, scripted_harness
from fakes.memories import adding
from fakes.postgres import need_postgres, own_schema


class OwnStorage(InMemoryStorage):
    """A foreign store; it takes the section."""

    def __init__(self, backend: MemoryBackendConfig) -> None:
        super().__init__()
        self.backend = backend


def config(database: str = "sqlite", **backend: Any) -> AppConfig:
    return AppConfig.model_validate(
        {"database": {"backend": database}, "memory": {"backend_config": backend}}
    )


async def files(storage: MemoryStorage, home: Path) -> list[str]:
    await storage.update("ann", adding(Fact("f", "Likes tea")))
    await storage.close()
    return _below(home)


def _below(home: Path) -> list[str]:
    return sorted(str(p.relative_to(home)) for p in home.rglob("memory.*"))


@pytest.mark.parametrize(
    ("backend", "kind", "file"),
    [
        ({}, FileMemoryStorage, "memory/users/ann/memory.json"),
        ({"storage_path": "kept"}, FileMemoryStorage, "kept/users/ann/memory.json"),
        (
            {"storage_path": "old/memory.json"},
            FileMemoryStorage,
            "old/memory/users/ann/memory.json",
        ),
        ({"storage": "sql"}, SqlMemoryStorage, "data/memory.db"),
        ({"storage": "sql", "storage_path": "kept"}, SqlMemoryStorage, "kept/memory.db"),
    ],
)
async def test_places(backend: dict[str, str], kind: type, file: str, tmp_path: Path) -> None:
    storage = make_memory_storage(config(**backend), tmp_path)
    assert isinstance(storage, kind)
    assert await files(storage, tmp_path) == [file]


async def test_a_path_elsewhere(tmp_path: Path) -> None:
    storage = make_memory_storage(config(storage_path=str(tmp_path / "x")), tmp_path / "home")
    assert await files(storage, tmp_path) == ["x/users/ann/memory.json"]


async def test_a_database_in_memory_leaves_no_file(tmp_path: Path) -> None:
    storage = make_memory_storage(config("memory"), tmp_path)
    assert await files(storage, tmp_path) == []


async def test_an_address_is_postgres(tmp_path: Path) -> None:
    address = "postgresql://nobody@127.0.0.1:1/none"
    storage = make_memory_storage(config(storage="sql", storage_path=address), tmp_path)
    assert isinstance(storage, SqlMemoryStorage)
    await storage.close()


async def test_a_database_on_postgres_keeps_the_memories_too(tmp_path: Path) -> None:
    need_postgres()
    with own_schema() as place:
        database = {
            "backend": "postgres", "postgres_url": place.url, "postgres_schema": place.schema
        }  # fmt: skip
        made = AppConfig.model_validate(
            {"database": database, "memory": {"backend_config": {"storage": "sql"}}}
        )
        storage = make_memory_storage(made, tmp_path)
        assert await files(storage, tmp_path) == []
        with psycopg.connect(place.url) as connection:
            tables = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = %s", (place.schema,)
            ).fetchall()
    assert ("memory_facts",) in tables


def test_a_class_of_ones_own(tmp_path: Path) -> None:
    storage = make_memory_storage(config(storage=f"{__name__}:OwnStorage", max_facts=7), tmp_path)
    assert isinstance(storage, OwnStorage)
    assert storage.backend.max_facts == 7


@pytest.mark.parametrize("path", ["redis", "nowhere:Class", "builtins:repr", "json:nothing"])
def test_a_class_that_is_none(path: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"memory\.backend_config\.storage"):
        make_memory_storage(config(storage=path), tmp_path)


async def test_a_memory_for_commands_makes_no_store(tmp_path: Path) -> None:
    async with open_memory(loaded(config(), tmp_path / "home")) as memory:
        assert await memory.pending() == 0
        assert await memory.search("ann", "") == []
    assert not (tmp_path / "home").exists()


async def test_a_memory_that_forgets_for_commands(tmp_path: Path) -> None:
    chosen = AppConfig.model_validate({"memory": {"manager_class": "noop"}})
    async with open_memory(loaded(chosen, tmp_path)) as memory:
        assert isinstance(memory, NoopMemoryManager)


def test_files_need_no_database_library(tmp_path: Path) -> None:
    code = """
import asyncio, json, sys
from pathlib import Path
import deerflow, deerflow.wiring.memory
from deerflow.config.schema import AppConfig
storage = deerflow.wiring.memory.make_memory_storage(AppConfig(), Path(sys.argv[1]))
asyncio.run(storage.load("ann"))
print(json.dumps(sorted(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    modules = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert modules & {"sqlalchemy", "aiosqlite", "psycopg", "alembic"} == set()
    assert "deerflow" in modules


@pytest.mark.parametrize(("mode", "kept"), [("tool", ["Likes tea"]), ("middleware", [])])
async def test_the_model_keeps_the_memory_when_it_is_told_to(
    mode: str, kept: list[str], tmp_path: Path
) -> None:
    call = {"name": "memory_add", "args": {"content": "Likes tea", "category": "preference"}}
    script = [{"calls": [call]}, {"text": "Noted."}]
    async with scripted_harness(script, tmp_path, memory={"mode": mode}) as harness:
        handle = await harness.runs.start(RunRequest(task="I like tea", thread_id="t1"))
        await handle.result()
        assert harness.memory is not None
        found = await harness.memory.search("local", "tea")
    assert [fact.content for fact in found] == kept
    assert [fact.source.thread for fact in found] == ["t1"] * len(kept)
