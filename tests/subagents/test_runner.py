"""Running children: bounds, retries, and room that is given back in every way."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime

from deerflow.agent.context import RunContext
from deerflow.config.schema import SubagentsConfig
from deerflow.errors import ModelAuthError, ThreadGoneError
from deerflow.middlewares.token_usage import MODEL, meter_of
from deerflow.models.protocol import ModelSpec
from deerflow.subagents.roster import SubagentSpec
from deerflow.subagents.runner import SubagentExecutor
from fakes.children import family, says, task
from fakes.rows import run_context

SPEC = SubagentSpec("one")


class Crowd:
    """Counts who is in at the same time."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def stay(self) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(20):
            await asyncio.sleep(0)
        self.now -= 1

    def tool(self) -> BaseTool:
        @tool
        async def work() -> str:
            """Work for a while."""
            await self.stay()
            return "worked"

        return work


def executor(graph: Any = None, **keys: Any) -> SubagentExecutor:
    return SubagentExecutor(SubagentsConfig.model_validate(keys), graph)


async def crowded(made: SubagentExecutor, *runs: Any, bounded: bool = True) -> int:
    """How many were in the executor's rooms at once."""
    crowd = Crowd()

    async def one(run: Any) -> None:
        async with made.room(run, bounded=bounded):
            await crowd.stay()

    await asyncio.gather(*(one(run) for run in runs))
    return crowd.most


async def test_room_per_run_per_user_and_per_process() -> None:
    ann, other, bob = run_context(), run_context(run_id="r2"), run_context(user_id="bob")
    made = executor(max_concurrent=2, per_user=3, **{"global": 4})
    assert await crowded(made, *[ann] * 9) == 2
    assert await crowded(made, *[ann] * 9, *[other] * 9) == 3
    assert await crowded(made, *[ann] * 9, *[other] * 9, *[bob] * 9) == 4
    assert await crowded(made, *[ann] * 9, bounded=False) == 3


async def test_room_is_given_back_whatever_happens() -> None:
    made = executor(**{"global": 1})
    run = run_context()
    for error in (ValueError, ThreadGoneError):
        with pytest.raises(error):
            async with made.room(run):
                raise error("out")
    inside = asyncio.Event()

    async def sits() -> None:
        async with made.room(run):
            inside.set()
            await asyncio.Event().wait()

    sitting = asyncio.create_task(sits())
    await inside.wait()
    waiting = asyncio.create_task(sits())
    await asyncio.sleep(0)
    waiting.cancel()
    sitting.cancel()
    await asyncio.gather(sitting, waiting, return_exceptions=True)
    async with made.room(run):
        pass
    assert await crowded(made, run, run) == 1


async def test_children_run_side_by_side_within_the_bounds(tmp_path: Path) -> None:
    async def most(**limits: Any) -> int:
        crowd = Crowd()
        stories = {
            "lead": [says("", *(task(f"script:one part {n}") for n in range(3))), says("Done.")],
            "one": [says("", {"name": "work", "args": {}}), says("Worked.")],
        }
        folder = tmp_path / "-".join(map(str, limits))
        run = await family(folder, stories, tools=(crowd.tool(),), subagents=limits)
        assert [answer.text for answer in run.answers] == ["Worked."] * 3
        return crowd.most

    assert await most() > 1
    assert await most(**{"global": 1}) == 1
    assert await most(per_user=1) == 1


async def test_a_failed_attempt_is_followed_by_another() -> None:
    tried: list[str] = []

    async def graph(spec: SubagentSpec, run: Any) -> Any:
        tried.append(run.agent)
        raise ModelAuthError("No key.", cure="Set one.")

    spec = SubagentSpec("one", max_attempts=3)
    result = await executor(graph).run(spec, "go", run_context(), name="c1")
    assert tried == ["c1"] * 3
    assert (result.status, result.text) == ("failed", "")
    assert result.error == {"code": "model_auth", "message": "No key.", "cure": "Set one."}


@pytest.mark.parametrize("error", [ThreadGoneError("gone"), ValueError("bug"), TimeoutError()])
async def test_what_is_no_childs_failure_goes_on_up(error: Exception) -> None:
    async def graph(spec: SubagentSpec, run: Any) -> Any:
        raise error

    with pytest.raises(type(error)):
        await executor(graph).run(SPEC, "go", run_context(), name="c1")


async def test_the_second_attempt_may_succeed_and_both_are_paid() -> None:
    tried: list[str] = []

    async def answer(state: Any, runtime: Runtime[RunContext]) -> dict[str, Any]:
        tried.append(runtime.context.agent)
        meter_of(runtime.context).record(AIMessage("x"), ModelSpec("m", "p", "m"), caller="one")
        if len(tried) == 1:
            raise ModelAuthError("No key.")
        return {"messages": [AIMessage("At last.", response_metadata={MODEL: "m"})]}

    builder: Any = StateGraph(MessagesState, RunContext)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    compiled = builder.compile()

    async def graph(spec: SubagentSpec, run: Any) -> Any:
        return compiled

    spec = SubagentSpec("one", max_attempts=5)
    result = await executor(graph).run(spec, "go", run_context(), name="c1")
    assert (result.status, result.text, result.turns) == ("completed", "At last.", 1)
    assert tried == ["c1"] * 2
    assert result.usage["total"]["calls"] == 2
