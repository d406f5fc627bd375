"""Row 13 beside its neighbour."""

from __future__ import annotations

from langchain_core.messages import AIMessage, ToolMessage

from deerflow.agent.hooks import Middleware
from deerflow.config.schema import SubagentsConfig
from deerflow.middlewares.subagent_limit import SubagentLimitMiddleware
from deerflow.subagents.answers import TaskAnswers
from fakes.children import task
from fakes.rows import call_tool, request, run_context, tool, user
from fakes.swaps import loops


async def test_subagent_limit_beside_loop_detection() -> None:
    calls = [{**task(f"part {n}"), "id": f"c{n}", "type": "tool_call"} for n in range(6)]
    state = {"messages": [user("go"), AIMessage("", id="a1", tool_calls=calls)]}
    outcomes: list[list[str]] = []

    async def effect(**_: str) -> str:
        return "ran"

    for limit_first in (True, False):
        limit: Middleware = SubagentLimitMiddleware(SubagentsConfig(), TaskAnswers())
        rows = [limit, loops()] if limit_first else [loops(), limit]
        run = run_context()
        outcome: list[str] = []
        for call in calls:
            asked = request(tool("task"), run, state)
            asked.tool_call.update(call)  # type: ignore[typeddict-item]
            got = await call_tool(rows, run, asked, effect)
            assert isinstance(got, ToolMessage)
            outcome.append(got.text)
        outcomes.append(outcome)
    assert outcomes[0] == outcomes[1], "free: different calls are no loop, dropped or not"
    assert outcomes[0].count("ran") == 3
