"""Rows 8 and 11 beside their neighbours."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage

from deerflow.config.schema import SubagentTokenBudgetConfig, TokenBudgetConfig, ToolSearchConfig
from deerflow.middlewares.deferred_tool_filter import DeferredToolFilterMiddleware
from deerflow.middlewares.skill_activation import SkillActivationMiddleware
from deerflow.middlewares.todo_list import TodoListMiddleware
from deerflow.middlewares.token_budget import TokenBudgetMiddleware
from deerflow.skills.inmemory import InMemorySkills
from deerflow.skills.protocol import Skill
from fakes.catalogs import ScriptedCatalog
from fakes.rows import run_context, started, tool, turn, user


async def test_skill_activation_beside_todo_list() -> None:
    store = InMemorySkills([(Skill("plan-well", "Plans."), "First think.")])
    texts: list[str] = []
    for skill_first in (True, False):
        skills, todos = SkillActivationMiddleware(store), TodoListMiddleware()
        rows = [skills, todos] if skill_first else [todos, skills]
        run = run_context(plan=True)
        state = await started(rows, {"messages": [user("/plan-well do it")]}, run)
        sent, _ = await turn(rows, state, run)
        assert sent is not None
        texts.append(sent[0].text)
    ordered, swapped = texts
    assert ordered.index("First think.") < ordered.index("Plan mode:")
    assert swapped.index("First think.") > swapped.index("Plan mode:"), (
        "the other way round the skill moves the plan away from the end of the request"
    )


async def test_deferred_tool_filter_beside_token_budget() -> None:
    limited = TokenBudgetConfig(enabled=True, max_tokens=3_000)
    stopped: list[bool] = []
    for hide_first in (True, False):
        catalog = ScriptedCatalog(main=["not asked"])
        hide = DeferredToolFilterMiddleware(ToolSearchConfig(enabled=True))
        budget = TokenBudgetMiddleware(limited, SubagentTokenBudgetConfig(), catalog)
        rows: list[Any] = [hide, budget] if hide_first else [budget, hide]
        run = run_context(model_name="main")
        offered = []
        for number in range(20):
            made = tool(f"tool_{number}", deferred=True)
            made.description = "x" * 1_000
            offered.append(made)
        state = await started(rows, {"messages": [user("hi")]}, run)
        sent, _ = await turn(rows, state, run, AIMessage("done", id="a"), tools=offered)
        stopped.append(sent is None)
    assert stopped == [False, True], "the other way round hidden schemas are paid for"
