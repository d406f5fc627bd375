"""Names the memory, its storage and the model that extracts."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from deerflow.config.load import LoadedConfig
from deerflow.config.schema import AppConfig
from deerflow.errors import UsageError
from deerflow.lead.asking import asks, extracting_model
from deerflow.memory.deermem.deermem import DeerMem
from deerflow.memory.deermem.file import FileMemoryStorage
from deerflow.memory.deermem.queue import MemoryUpdateQueue
from deerflow.memory.deermem.updater import MemoryUpdater
from deerflow.memory.inmemory import InMemoryStorage as InMemoryMemories
from deerflow.memory.noop import NoopMemoryManager
from deerflow.memory.protocol import Ask, MemoryManager, MemoryStorage
from deerflow.models.protocol import Catalog
from deerflow.models.resilience import Resilience
from deerflow.plugins import load_memory_manager, load_memory_storage
from deerflow.storage.protocol import Storage
from deerflow.storage.sql.open import database_file
from deerflow.wiring.stores import has_stores, open_stores


def make_memory(
    loaded: LoadedConfig, storage: Storage, catalog: Catalog, resilience: Resilience
) -> MemoryManager | None:
    """The memory that `memory.manager_class` names; None when memory is off.

    Raises:
        ConfigError: a class of the configuration that cannot be loaded.
        StorageError: see `make_memory_storage`.
    """
    config, memory = loaded.config, loaded.config.memory
    if not memory.enabled:
        return None
    if memory.manager_class == "noop":
        return NoopMemoryManager()
    if memory.manager_class != "deermem":
        return load_memory_manager(memory.manager_class, memory)
    backend = memory.backend_config
    kept = make_memory_storage(config, loaded.home)
    name = extracting_model(catalog, backend)
    if name is None:
        return DeerMem(kept, None, backend)
    ask_for = asks(name, catalog, resilience, storage, config.token_budget)
    updater = MemoryUpdater(ask_for, threshold=backend.fact_confidence_threshold)
    queue = MemoryUpdateQueue(storage.memory_queue, updater, kept, backend)
    return DeerMem(kept, queue, backend)


def make_memory_storage(config: AppConfig, home: Path) -> MemoryStorage:
    """Where memories are kept, as `memory.backend_config` says.

    Files below the home, or a database of their own beside the harness's: a file, or PostgreSQL
    when `storage_path` is its address, or names nothing and the harness's database is there. With a
    database in memory nothing is written without a path.

    Raises:
        ConfigError: a class of the configuration that cannot be loaded.
        StorageError: the driver of PostgreSQL is not installed.
    """
    backend, place = config.memory.backend_config, config.memory.backend_config.storage_path
    if backend.storage not in ("file", "sql"):
        return load_memory_storage(backend.storage, backend)
    if place is None and config.database.backend == "memory":
        return InMemoryMemories()
    if backend.storage == "file":
        folder = home / (place or "memory")
        # the first 2.x files name the one file in which all was kept
        return FileMemoryStorage(folder.with_suffix("") if folder.suffix == ".json" else folder)
    from deerflow.memory.deermem.sql import (  # noqa: PLC0415  # SQLAlchemy costs 0.3 s
        SqlMemoryStorage,
    )

    if place is not None and place.startswith("postgres"):
        return SqlMemoryStorage(place)
    if place is None and config.database.backend == "postgres":
        return SqlMemoryStorage(
            config.database.postgres_url or "", schema=config.database.postgres_schema
        )
    data = home / place if place else database_file(config.database, home).parent
    return SqlMemoryStorage(data / "memory.db")


@asynccontextmanager
async def open_memory(loaded: LoadedConfig) -> AsyncGenerator[MemoryManager]:
    """The memory alone, for commands that extract nothing; it is there even when memory is off.

    Raises:
        ConfigError: a class of the configuration that cannot be loaded.
        StorageError: see `open_stores`.
    """
    config = loaded.config.memory
    async with AsyncExitStack() as stack:
        if config.manager_class == "noop":
            yield NoopMemoryManager()
            return
        kept = make_memory_storage(loaded.config, loaded.home)
        queue: MemoryUpdateQueue | None = None
        if has_stores(loaded):
            stores = await stack.enter_async_context(open_stores(loaded))
            updater = MemoryUpdater(_no_model)
            queue = MemoryUpdateQueue(stores.memory_queue, updater, kept, config.backend_config)
        memory = DeerMem(kept, queue, config.backend_config)
        stack.push_async_callback(memory.close)
        yield memory


def _no_model(user_id: str) -> Ask:
    raise UsageError(f"No model extracts here for {user_id}.")
