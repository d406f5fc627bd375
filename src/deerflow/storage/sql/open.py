"""Opens the storage that the configuration names."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from deerflow.config.schema import CheckpointCacheConfig, DatabaseConfig, StreamBridgeConfig
from deerflow.errors import StorageError
from deerflow.storage.checkpoints.hybrid import ValueCache
from deerflow.storage.inmemory import InMemoryStorage
from deerflow.storage.protocol import Storage
from deerflow.storage.sql.driver import PAGE_BYTES
from deerflow.storage.sql.notifier import Bridge
from deerflow.storage.sql.schema import prepare
from deerflow.storage.sql.storage import SqliteStorage

FILE = "deerflow.db"
FOLDER = "data"


async def open_storage(
    config: DatabaseConfig, home: Path, stream: StreamBridgeConfig | None = None
) -> Storage:
    """Open the database, made or upgraded when that is needed.

    Args:
        config: section `database`.
        stream: section `stream_bridge`.
        home: DEER_FLOW_HOME; the file is `data/deerflow.db` below it unless `sqlite_dir` says
            otherwise.

    Raises:
        ConfigError: backend postgres without an address.
        StorageError: the folder, the file or the server cannot be used, the driver of PostgreSQL
            is not installed, or a newer version wrote the tables.
    """
    if config.backend == "memory":
        return InMemoryStorage()
    if config.backend == "postgres":
        return await asyncio.to_thread(_open_postgres, config, stream)
    return await asyncio.to_thread(_open, database_file(config, home).parent, stream)


def database_file(config: DatabaseConfig, home: Path) -> Path:
    """Where the SQLite file is, or will be."""
    folder = Path(config.sqlite_dir) if config.sqlite_dir else home / FOLDER
    return folder / FILE


def _open(folder: Path, stream: StreamBridgeConfig | None) -> SqliteStorage:
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
        return SqliteStorage(path, bridge=_bridge(stream))
    except StorageError:
        if new:
            _take_back(path)
        raise


def _open_postgres(config: DatabaseConfig, stream: StreamBridgeConfig | None) -> Storage:
    try:
        from deerflow.storage.postgres.storage import (  # noqa: PLC0415  # only where it is used
            open_postgres,
        )
    except ImportError as error:
        raise StorageError(
            "The driver of PostgreSQL is not installed.",
            cure="Install deerflow with the extra postgres.",
        ) from error
    return open_postgres(config, _bridge(stream), _cache(config.checkpoint_cache))


def _bridge(stream: StreamBridgeConfig | None) -> Bridge | None:
    """What `stream_bridge` names; None for the database's own way."""
    if stream is None or stream.type != "redis":
        return None
    try:
        from deerflow.storage.redis.notify import redis_bridge  # noqa: PLC0415  # only where used
    except ImportError as error:
        raise _no_redis() from error
    return redis_bridge(stream.redis_url or "", stream.max_connections)


def _cache(config: CheckpointCacheConfig) -> ValueCache | None:
    """What `database.checkpoint_cache` names besides this process's own memory."""
    if config.type != "redis":
        return None
    try:
        from deerflow.storage.redis.values import RedisValues  # noqa: PLC0415  # only where used
    except ImportError as error:
        raise _no_redis() from error
    return RedisValues(
        config.redis_url or "", ttl_seconds=config.ttl_seconds, max_entries=config.max_entries
    )


def _no_redis() -> StorageError:
    return StorageError(
        "The driver of Redis is not installed.", cure="Install deerflow with the extra redis."
    )


def _take_back(path: Path) -> None:
    """Leave no empty database and no empty folder when it could not be made."""
    with contextlib.suppress(OSError):
        if path.stat().st_size <= PAGE_BYTES:  # no table yet
            path.unlink()
        path.parent.rmdir()
        path.parent.parent.rmdir()  # home, when it was empty before
