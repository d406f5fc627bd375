"""The storages that every implementation's suite runs on."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deerflow.storage.inmemory import InMemoryStorage
from deerflow.storage.protocol import Storage
from deerflow.storage.sql.schema import prepare
from deerflow.storage.sql.storage import SqliteStorage

DEAD = "999999999:1:no-such-boot"
"""Owner string of a process that does not exist."""


def opened(kind: str, folder: Path, owner: str = "") -> Storage:
    """An empty storage of a kind."""
    if kind == "memory":
        return InMemoryStorage(owner=owner)
    prepare(folder / "test.db")
    return SqliteStorage(folder / "test.db", owner=owner)


@pytest.fixture(params=["memory", "sqlite"])
async def storage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Storage]:
    """Each implementation in turn, empty."""
    found = opened(request.param, tmp_path)
    yield found
    await found.close()


@pytest.fixture(params=["memory", "sqlite"])
async def dead(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Storage]:
    """Each implementation in turn, its runs owned by a process that is dead."""
    found = opened(request.param, tmp_path, DEAD)
    yield found
    await found.close()


@pytest.fixture
async def key(storage: Storage) -> str:
    """A thread of user ann with the id t1."""
    return (await storage.threads.ensure("ann", "t1")).thread_key
