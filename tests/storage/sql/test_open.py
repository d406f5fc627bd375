"""open_storage: what the configuration names, with clear words when it cannot be had."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from deerflow.config.schema import DatabaseConfig
from deerflow.errors import ConfigError, StorageError
from deerflow.storage.protocol import Storage
from deerflow.storage.sql.driver import connect
from deerflow.storage.sql.open import open_storage


async def test_sqlite_below_the_home_is_the_default(tmp_path: Path) -> None:
    storage = await open_storage(DatabaseConfig(), tmp_path)
    assert isinstance(storage, Storage)
    assert storage.kind == "sqlite"
    await storage.threads.ensure("ann", "t1")
    await storage.close()
    again = await open_storage(DatabaseConfig(), tmp_path)
    row = await again.threads.get("ann", "t1")
    await again.close()

    assert row is not None
    assert [file.name for file in (tmp_path / "data").iterdir()] == ["deerflow.db"]


async def test_another_folder_and_memory(tmp_path: Path) -> None:
    other = await open_storage(DatabaseConfig(sqlite_dir=str(tmp_path / "x")), tmp_path / "home")
    await other.close()
    memory = await open_storage(DatabaseConfig(backend="memory"), tmp_path / "home")

    assert (tmp_path / "x" / "deerflow.db").exists()
    assert memory.kind == "memory"
    assert isinstance(memory, Storage)
    assert not (tmp_path / "home").exists()


async def test_a_home_that_is_a_file_is_told_without_its_path(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")

    with pytest.raises(StorageError, match="cannot be made") as caught:
        await open_storage(DatabaseConfig(), tmp_path / "home")
    assert str(tmp_path) not in str(caught.value)


async def test_postgres_without_an_address_is_refused_with_the_cure(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="postgres_url is not set") as caught:
        await open_storage(DatabaseConfig(backend="postgres"), tmp_path)
    assert "postgresql://" in caught.value.cure


async def test_many_that_open_a_new_file_at_once_get_along(tmp_path: Path) -> None:
    storages = await asyncio.gather(*(open_storage(DatabaseConfig(), tmp_path) for _ in range(8)))
    for number, storage in enumerate(storages):
        await storage.threads.ensure("ann", f"t{number}")
    rows = await storages[0].threads.list("ann")
    for storage in storages:
        await storage.close()

    assert len(rows) == 8


async def test_wal_and_normal_are_set(tmp_path: Path) -> None:
    storage = await open_storage(DatabaseConfig(), tmp_path)
    await storage.close()
    connection = connect(tmp_path / "data" / "deerflow.db")
    found = {
        name: connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "auto_vacuum", "busy_timeout")
    }
    connection.close()

    assert found == {
        "journal_mode": "wal",
        "synchronous": 1,
        "auto_vacuum": 2,
        "busy_timeout": 10_000,
    }


def test_a_start_imports_neither_sqlalchemy_nor_alembic(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys, pathlib\n"
        "from deerflow.config.schema import DatabaseConfig\n"
        "from deerflow.storage.sql.open import open_storage\n"
        "async def main():\n"
        "    storage = await open_storage(DatabaseConfig(), pathlib.Path(sys.argv[1]))\n"
        "    await storage.close()\n"
        "asyncio.run(main())\n"
        "print(sorted({'sqlalchemy', 'alembic'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"
