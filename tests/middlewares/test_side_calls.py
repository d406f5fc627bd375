"""Calls beside the turns: counted, told, limited, charged once, also after a kill."""

from __future__ import annotations

import pytest
from langchain_core.messages import HumanMessage

from deerflow.agent.context import RunContext
from deerflow.config.schema import SubagentTokenBudgetConfig, TokenBudgetConfig
from deerflow.errors import LimitError, ModelError
from deerflow.middlewares.side_calls import (
    charge_user,
    recount_side_calls,
    side_call,
    spec_for,
    user_call,
)
from deerflow.middlewares.spending import account_of, open_account, today
from deerflow.middlewares.token_usage import usage_of
from deerflow.models.protocol import ModelSpec, Pricing
from deerflow.models.scripted import ScriptedChatModel
from deerflow.models.usage import Tokens
from deerflow.storage.inmemory import InMemoryStorage
from fakes.catalogs import ScriptedCatalog
from fakes.rows import events, run_context

SPEC = ModelSpec("m", "scripted", "m", pricing=Pricing("EUR", 1.0, 2.0))
ASKED = [HumanMessage("Summarise.")]
OFF = SubagentTokenBudgetConfig()


def model(times: int = 1) -> ScriptedChatModel:
    turn = {"text": "Short.", "usage": {"input": 1_000, "output": 100}, "times": times}
    return ScriptedChatModel(script=[turn])


def limited(run: RunContext, **config: object) -> RunContext:
    open_account(run, TokenBudgetConfig.model_validate(config), OFF)
    return run


async def test_without_limits_it_is_counted_and_told() -> None:
    run = run_context()
    reply = await side_call(run, SPEC, model(), ASKED, caller="summary")
    assert reply.text == "Short."
    assert usage_of(run)["by_caller"]["summary"]["total"] == 1_100
    (told,) = await events(run, "usage")
    assert (told["caller"], told["model"], told["usage"]["total"]) == ("summary", "m", 1_100)
    assert (await run.storage.spending.of("ann", today())).tokens == 0


async def test_within_limits_the_run_and_the_day_are_charged_once() -> None:
    run = limited(run_context(), enabled=True, user_day=10_000, money_day=1, currency="EUR")
    await side_call(run, SPEC, model(), ASKED, caller="title")
    account = account_of(run)
    assert account is not None
    assert account.used.of("tokens") == 1_100
    assert account.used.of("money") == pytest.approx(0.0012)
    assert account.held.of("tokens") == 0
    spent = await run.storage.spending.of("ann", today())
    assert (spent.tokens, round(spent.money["EUR"], 6)) == (1_100, 0.0012)


async def test_a_child_pays_for_its_own_and_for_the_run() -> None:
    run = run_context()
    child = run.child("c1", "m", 5)
    budget = SubagentTokenBudgetConfig(enabled=True, max_tokens=50_000)
    open_account(run, TokenBudgetConfig(), budget)
    await side_call(child, SPEC, model(), ASKED, caller="summary")
    account = account_of(child)
    assert account is not None
    (total, *_) = account.child
    assert account.spent(total, "c1") == 1_100
    assert account.spent(total, "c2") == 0
    assert usage_of(run)["by_caller"]["summary"]["calls"] == 1


async def test_without_room_nothing_is_asked() -> None:
    run = limited(run_context(), enabled=True, max_tokens=1_000)
    await side_call(run, SPEC, model(), ASKED, caller="title")
    asked = model()
    with pytest.raises(LimitError) as told:
        await side_call(run, SPEC, asked, ASKED, caller="title")
    assert told.value.rule == "token_budget.max_tokens"
    assert asked.requests == []


async def test_a_call_that_fails_reserves_nothing_any_more() -> None:
    run = limited(run_context(), enabled=True)
    with pytest.raises(ModelError):
        await side_call(
            run, SPEC, ScriptedChatModel(script=[{"error": "server"}]), ASKED, caller="goal"
        )
    account = account_of(run)
    assert account is not None
    assert account.held.of("tokens") == account.used.of("tokens") == 0
    assert await events(run, "usage") == []


async def test_a_resumed_run_has_what_earlier_processes_paid() -> None:
    run = run_context()
    await side_call(run, SPEC, model(), ASKED, caller="goal")
    again = run_context(storage=run.storage, resumed=True)
    await recount_side_calls(again)
    assert usage_of(again)["by_caller"]["goal"] == usage_of(run)["by_caller"]["goal"]


async def test_a_call_without_a_run_is_charged_to_the_day_of_its_user() -> None:
    storage = InMemoryStorage()
    config = TokenBudgetConfig(user_day=1_500, currency="EUR")
    reply = await user_call(storage, config, "ann", SPEC, model(), ASKED)
    assert reply.text == "Short."
    assert (await storage.spending.of("ann", today())).tokens == 1_100
    charge_user(storage, config, "ann", Tokens(input=300, output=100, cost={"EUR": 0.5}))
    spent = await storage.spending.of("ann", today())
    assert spent.tokens == 1_500
    with pytest.raises(LimitError, match="user_day"):
        await user_call(storage, config, "ann", SPEC, model(), ASKED)
    assert (await user_call(storage, config, "ben", SPEC, model(), ASKED)).text == "Short."


async def test_without_limits_of_the_day_nothing_is_written() -> None:
    storage = InMemoryStorage()
    await user_call(storage, TokenBudgetConfig(enabled=True), "ann", SPEC, model(), ASKED)
    charge_user(storage, TokenBudgetConfig(), "ann", Tokens(input=300))
    assert (await storage.spending.of("ann", today())).tokens == 0


def test_a_stranger_is_known_by_name_alone() -> None:
    catalog = ScriptedCatalog(main=[])
    assert spec_for(catalog, catalog.models["main"], "x").name == "main"
    assert spec_for(catalog, model(), "x").name == "x"
    assert spec_for(None, model(), "y").name == "y"
