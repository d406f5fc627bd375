"""LangGraph's own conformance suite on every saver."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate

from deerflow.storage.inmemory import InMemoryStorage
from deerflow.storage.postgres.storage import PostgresStorage
from deerflow.storage.sql.schema import prepare
from deerflow.storage.sql.storage import SqliteStorage, SqlStorage
from fakes.postgres import place, shared_schema
from fakes.redis import cache

__all__ = ["cache", "place", "shared_schema"]


def opened(kind: str, request: pytest.FixtureRequest) -> InMemoryStorage | SqlStorage:
    """A storage of a kind."""
    if kind == "memory":
        return InMemoryStorage()
    if kind == "postgres":
        return PostgresStorage(request.getfixturevalue("place"))
    if kind == "hybrid":
        cache = request.getfixturevalue("cache")
        return PostgresStorage(request.getfixturevalue("place"), cache=cache)
    path: Path = request.getfixturevalue("tmp_path") / "test.db"
    prepare(path)
    return SqliteStorage(path)


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres", "hybrid"])
async def test_suite_passes_in_full(kind: str, request: pytest.FixtureRequest) -> None:
    @checkpointer_test(name=kind)
    async def saver() -> AsyncIterator[BaseCheckpointSaver[int]]:
        storage = opened(kind, request)
        yield storage.saver
        await storage.close()

    report = await validate(saver)

    failures = {name: result.failures for name, result in report.results.items() if result.failures}
    assert failures == {}
    assert report.conformance_level() == "FULL"
    assert all(result.detected for result in report.results.values())
