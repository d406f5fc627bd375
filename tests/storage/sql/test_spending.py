"""Spending of several processes on one file."""

from typing import Any

from deerflow.storage.protocol import Spent
from deerflow.storage.sql.storage import SqliteStorage


async def test_storages_on_one_file_add_up(opened: Any) -> None:
    storages: list[SqliteStorage] = [opened(), opened()]
    for _ in range(20):
        storages[0].spending.add("ann", "2026-01-01", 1, {"USD": 0.5})
        storages[1].spending.add("ann", "2026-01-01", 2, {"EUR": 0.25})
    for storage in storages:
        await storage.flush()

    for storage in storages:
        spent = await storage.spending.of("ann", "2026-01-01")
        assert spent == Spent(60, {"USD": 10.0, "EUR": 5.0})
        await storage.close()
