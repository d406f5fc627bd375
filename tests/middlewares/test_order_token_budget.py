"""Row 12 beside its neighbours."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage

from deerflow.agent.hooks import ModelReply
from deerflow.config.schema import SubagentTokenBudgetConfig, TokenBudgetConfig
from deerflow.middlewares.order import HOOKS, THE_LIST
from deerflow.middlewares.spending import Account, account_of
from deerflow.middlewares.token_budget import TokenBudgetMiddleware
from deerflow.middlewares.token_usage import TokenUsageMiddleware
from fakes.catalogs import ScriptedCatalog
from fakes.rows import run_context, turn, user
from fakes.swaps import Asks, errors


async def test_token_budget_beside_subagent_limit() -> None:
    hooks = {row.number: set(row.hooks) for row in THE_LIST if row.number in (12, 13)}
    assert set().union(*hooks.values()) <= set(HOOKS)
    assert not hooks[12] & hooks[13], "free: one works on calls of the model, one on tool calls"


async def test_a_reservation_outlasts_the_retries_inside_it() -> None:
    """Outside row 15 the room is kept while a call is tried again; inside, others could take it."""
    kept: list[float] = []
    for budget_first in (True, False):
        catalog = ScriptedCatalog(main=[{"error": "server"}, {"text": "x"}])
        budget = TokenBudgetMiddleware(
            TokenBudgetConfig(enabled=True), SubagentTokenBudgetConfig(), catalog
        )
        retries, run = errors(catalog), run_context()
        held: list[float] = []

        async def between(_seconds: float, held: list[float] = held, run: Any = run) -> None:
            account = account_of(run)
            assert isinstance(account, Account)
            held.append(account.held.of("tokens"))

        retries._resilience._sleep = between  # pyright: ignore[reportPrivateUsage]
        rows = [budget, retries] if budget_first else [retries, budget]
        row = [*rows, TokenUsageMiddleware(catalog), Asks()]
        _, reply = await turn(row, {"messages": [user("hi")]}, run, model=catalog.models["main"])
        assert isinstance(reply, ModelReply) and isinstance(reply.message, AIMessage)
        kept.append(sum(held))
    assert kept[0] > 0
    assert kept[1] == 0
