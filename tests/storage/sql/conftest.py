"""Files that several storages share, and processes that compete for them."""

import multiprocessing
from collections.abc import Callable
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from deerflow.storage.sql.schema import prepare
from deerflow.storage.sql.storage import SqliteStorage

Opened = Callable[..., SqliteStorage]


@pytest.fixture(scope="session")
def processes() -> ForkServerContext:
    """Starts processes quickly: what they import is imported once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["deerflow.storage.sql.storage", "langchain_core.messages"])
    return context


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """Call as `opened(owner)`: one more storage on the test's file, the caller closes it."""

    def open_one(owner: str = "") -> SqliteStorage:
        prepare(tmp_path / "test.db")
        return SqliteStorage(tmp_path / "test.db", owner=owner)

    return open_one
