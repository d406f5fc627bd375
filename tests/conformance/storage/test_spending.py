"""Spending: sums by user, day and currency."""

import math

import pytest

from deerflow.errors import StorageError
from deerflow.storage.protocol import Spent, Storage


async def test_nothing_spent(storage: Storage) -> None:
    assert await storage.spending.of("ann", "2026-01-01") == Spent()


async def test_sums_by_user_day_and_currency(storage: Storage) -> None:
    storage.spending.add("ann", "2026-01-01", 100, {"USD": 0.5})
    storage.spending.add("ann", "2026-01-01", 20, {"USD": 0.25, "EUR": 1.0})
    storage.spending.add("ann", "2026-01-02", 7, {})
    await storage.spending.add("bob", "2026-01-01", 3, {"": 2.0})

    assert await storage.spending.of("ann", "2026-01-01") == Spent(120, {"USD": 0.75, "EUR": 1.0})
    assert await storage.spending.of("ann", "2026-01-02") == Spent(7)
    assert await storage.spending.of("bob", "2026-01-01") == Spent(3, {"": 2.0})
    assert await storage.spending.of("bob", "2026-01-02") == Spent()


@pytest.mark.parametrize("amount", [math.nan, math.inf])
async def test_an_amount_that_would_spoil_the_sum_is_refused(
    storage: Storage, amount: float
) -> None:
    await storage.spending.add("ann", "2026-01-01", 1, {"USD": 1.0})

    with pytest.raises(StorageError, match="no sum of money"):
        storage.spending.add("ann", "2026-01-01", 1, {"USD": amount})
    assert await storage.spending.of("ann", "2026-01-01") == Spent(1, {"USD": 1.0})


async def test_it_outlives_the_thread(storage: Storage, key: str) -> None:
    await storage.spending.add("ann", "2026-01-01", 5, {})
    await storage.threads.delete("ann", "t1")

    assert await storage.spending.of("ann", "2026-01-01") == Spent(5)
