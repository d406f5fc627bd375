"""Opens the storage that the configuration names."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from deerflow.config.schema import DatabaseConfig
from deerflow.errors import StorageError
from deerflow.storage.inmemory import InMemoryStorage
from deerflow.storage.protocol import Storage
from deerflow.storage.sql.driver import PAGE_BYTES
from deerflow.storage.sql.schema import prepare
from deerflow.storage.sql.storage import SqliteStorage

FILE = "deerflow.db"
FOLDER = "data"


async def open_storage(config: DatabaseConfig, home: Path) -> Storage:
    """Open the database, made or upgraded when that is needed.

    Args:
        config: section `database`.
        home: DEER_FLOW_HOME; the file is `data/deerflow.db` below it unless `sqlite_dir` says
            otherwise.

    Raises:
        StorageError: the folder or the file cannot be used, or a newer version wrote it.
    """
    if config.backend == "memory":
        return InMemoryStorage()
    if config.backend == "postgres":
        raise StorageError(
            "This version has no PostgreSQL storage.", cure="Set database.backend to sqlite."
        )
    return await asyncio.to_thread(_open, database_file(config, home).parent)


def database_file(config: DatabaseConfig, home: Path) -> Path:
    """Where the SQLite file is, or will be."""
    folder = Path(config.sqlite_dir) if config.sqlite_dir else home / FOLDER
    return folder / FILE


def _open(folder: Path) -> SqliteStorage:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"The folder of the database cannot be made: {error.strerror}.",
            cure="Make DEER_FLOW_HOME writable, or set database.sqlite_dir.",
        ) from error
    path = folder / FILE
    new = not path.exists()
    try:
        prepare(path)
        return SqliteStorage(path)
    except StorageError:
        if new:
            _take_back(path)
        raise


def _take_back(path: Path) -> None:
    """Leave no empty database and no empty folder when it could not be made."""
    with contextlib.suppress(OSError):
        if path.stat().st_size <= PAGE_BYTES:  # no table yet
            path.unlink()
        path.parent.rmdir()
        path.parent.parent.rmdir()  # home, when it was empty before
