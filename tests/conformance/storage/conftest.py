"""The storages that every implementation's suite runs on."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deerflow.storage.inmemory import InMemoryStorage
from deerflow.storage.postgres.storage import PostgresStorage
from deerflow.storage.protocol import Storage
from deerflow.storage.sql.schema import prepare
from deerflow.storage.sql.storage import SqliteStorage
from fakes.postgres import emptied, shared_schema

__all__ = ["shared_schema"]

DEAD = "999999999:1:no-such-boot"
"""Owner string of a process that does not exist."""
KINDS = ("memory", "sqlite", "postgres")


def opened(request: pytest.FixtureRequest, owner: str = "") -> Storage:
    """An empty storage of the fixture's kind."""
    if request.param == "memory":
        return InMemoryStorage(owner=owner)
    if request.param == "postgres":
        return PostgresStorage(emptied(request.getfixturevalue("shared_schema")), owner=owner)
    folder: Path = request.getfixturevalue("tmp_path")
    prepare(folder / "test.db")
    return SqliteStorage(folder / "test.db", owner=owner)


@pytest.fixture(params=KINDS)
async def storage(request: pytest.FixtureRequest) -> AsyncIterator[Storage]:
    """Each implementation in turn, empty."""
    found = opened(request)
    yield found
    await found.close()


@pytest.fixture(params=KINDS)
async def dead(request: pytest.FixtureRequest) -> AsyncIterator[Storage]:
    """Each implementation in turn, its runs owned by a process that is dead."""
    found = opened(request, DEAD)
    yield found
    await found.close()


@pytest.fixture(params=KINDS)
async def leased(request: pytest.FixtureRequest) -> AsyncIterator[Storage]:
    """Each implementation in turn, what is claimed here owned by the worker w-1."""
    found = opened(request, "w-1")
    yield found
    await found.close()


@pytest.fixture
async def key(storage: Storage) -> str:
    """A thread of user ann with the id t1."""
    return (await storage.threads.ensure("ann", "t1")).thread_key
