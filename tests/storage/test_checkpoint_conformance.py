"""LangGraph's own conformance suite on both savers."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate

from deerflow.storage.inmemory import InMemoryStorage
from deerflow.storage.sql.schema import prepare
from deerflow.storage.sql.storage import SqliteStorage


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_suite_passes_in_full(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "test.db"
    prepare(path)

    @checkpointer_test(name=kind)
    async def saver() -> AsyncIterator[BaseCheckpointSaver[int]]:
        storage = InMemoryStorage() if kind == "memory" else SqliteStorage(path)
        yield storage.saver
        await storage.close()

    report = await validate(saver)

    failures = {name: result.failures for name, result in report.results.items() if result.failures}
    assert failures == {}
    assert report.conformance_level() == "FULL"
    assert all(result.detected for result in report.results.values())
