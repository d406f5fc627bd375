"""The books of row 12: what a day holds, over many runs and processes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from deerflow.agent.context import RunContext
from deerflow.config.schema import DatabaseConfig, SubagentTokenBudgetConfig, TokenBudgetConfig
from deerflow.errors import LimitError
from deerflow.middlewares.limits import child_limits, limits_of
from deerflow.middlewares.spending import (
    REFRESH_SECONDS,
    Account,
    Amount,
    Day,
    Hold,
    open_account,
    today,
)
from deerflow.models.protocol import ModelSpec
from deerflow.models.usage import Tokens
from deerflow.storage.inmemory import InMemoryStorage
from deerflow.storage.sql.open import open_storage
from fakes.rows import run_context

NOON = 1_795_953_600.0
"""2026-11-29, 12:00 UTC."""
SPEC = ModelSpec(name="m", provider="", model="m")


class Clock:
    def __init__(self, now: float = NOON) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def account(run: RunContext, **config: Any) -> Account:
    child = SubagentTokenBudgetConfig.model_validate(config.pop("child", {}))
    found = open_account(run, TokenBudgetConfig(**config), child)
    assert found is not None
    return found


def test_null_and_disabled_are_no_limits() -> None:
    assert limits_of(TokenBudgetConfig()) == ()
    assert child_limits(SubagentTokenBudgetConfig()) == ()
    run = run_context()
    assert open_account(run, TokenBudgetConfig(), SubagentTokenBudgetConfig()) is None
    assert run.scratch == {}


def test_every_limit_is_named_by_its_key() -> None:
    config = TokenBudgetConfig(
        enabled=True, max_input_tokens=1, max_output_tokens=2, user_day=3, money_day=4, hard=0.5
    )
    assert {limit.rule: limit.ceiling for limit in limits_of(config)} == {
        "token_budget.max_tokens": 100_000,
        "token_budget.max_input_tokens": 0.5,
        "token_budget.max_output_tokens": 1,
        "token_budget.user_day": 1.5,
        "token_budget.money_day": 2,
    }
    assert [limit.rule for limit in limits_of(TokenBudgetConfig(enabled=True, run=9))] == [
        "token_budget.run"
    ]
    enabled = SubagentTokenBudgetConfig(enabled=True)
    assert [limit.rule for limit in child_limits(enabled)] == [
        "subagents.token_budget.max_tokens", "subagents.token_budget.max_output_tokens"
    ]  # fmt: skip


async def test_a_day_begins_at_midnight_utc() -> None:
    storage, clock = InMemoryStorage(), Clock()
    day = Day(storage, "ann", clock)
    await day.refresh()
    day.add(Amount(900, 100), {})
    assert (today(clock), day.used("tokens", "")) == ("2026-11-29", 1_000)
    clock.now += 12 * 3600
    await day.refresh()
    assert day.used("tokens", "") == 0
    day.add(Amount(5, 5), {})
    assert day.used("tokens", "") == 10
    assert (await storage.spending.of("ann", "2026-11-29")).tokens == 1_000
    assert (await storage.spending.of("ann", "2026-11-30")).tokens == 10


async def test_the_sum_is_read_again_when_it_is_old() -> None:
    storage, clock = InMemoryStorage(), Clock()
    day = Day(storage, "ann", clock)
    await day.refresh()
    await storage.spending.add("ann", "2026-11-29", 70, {})
    await day.refresh()
    assert day.used("tokens", "") == 0
    clock.now += REFRESH_SECONDS
    await day.refresh()
    assert day.used("tokens", "") == 70
    await storage.spending.add("ann", "2026-11-29", 7, {})
    await day.refresh(at_once=True)
    assert day.used("tokens", "") == 77


async def test_two_processes_share_a_day(tmp_path: Path) -> None:
    database = DatabaseConfig()
    one = await open_storage(database, tmp_path)
    two = await open_storage(database, tmp_path)
    try:
        config = {"user_day": 10_000, "money_day": 1.0, "currency": "EUR"}
        runs = [run_context(storage=storage) for storage in (one, two)]
        books = [account(run, **config) for run in runs]
        for book, run in zip(books, runs, strict=True):
            await book.ready(run)
            book.pay(run, Tokens(calls=1, input=3_900, output=100, cost={"EUR": 0.2}))
        await one.flush()
        await two.flush()
        for book in books:
            assert book.day is not None
            await book.day.refresh(at_once=True)
            limits = {limit.unit: book.spent(limit) for limit in book.limits}
            assert limits["tokens"] == 8_000
            assert limits["money"] == pytest.approx(0.4)
    finally:
        await one.close()
        await two.close()


async def test_other_users_are_not_charged() -> None:
    storage = InMemoryStorage()
    ann, ben = run_context(storage=storage), run_context(storage=storage, user_id="ben")
    account(ann, user_day=100).pay(ann, Tokens(input=50))
    await account(ben, user_day=100).ready(ben)
    (limit,) = account(ben, user_day=100).limits
    assert account(ben, user_day=100).spent(limit) == 0


async def test_reservations_end_with_their_call_in_every_way() -> None:
    run = run_context()
    book = account(run, enabled=True)
    for error in (RuntimeError, asyncio.CancelledError):
        with pytest.raises(error), book.holding(run, Hold(Amount(10, 20))):
            assert book.held.of("tokens") == 30
            raise error
    assert book.held.of("tokens") == 0
    assert book.holds == {}


async def test_asking_again_within_a_turn_needs_room_too() -> None:
    run = run_context()
    book = account(run, enabled=True, max_tokens=10_000)
    with book.holding(run, Hold(Amount(1_000, 1_000), 900)):
        book.readmit(run, SPEC)
        book.pay(run, Tokens(input=4_000, output=10))
        book.readmit(run, SPEC)
        book.pay(run, Tokens(input=5_000, output=10))
        with pytest.raises(
            LimitError, match=r"max_tokens: 9,020 of 10,000 tokens are used"
        ) as told:
            book.readmit(run, SPEC)
    assert (told.value.rule, told.value.used, told.value.limit) == (
        "token_budget.max_tokens", 9_020, 10_000
    )  # fmt: skip


async def test_the_estimate_learns_from_what_the_provider_counts() -> None:
    run = run_context()
    book = account(run, enabled=True)
    with book.holding(run, Hold(Amount(900), 900)):
        book.pay(run, Tokens(input=600, output=10))
    pace = book.paces[run.agent]
    assert pace.expected(900) == 600
    assert pace.expected(1_000) == 700
    assert pace.expected(90) == 60, "after a compaction"
