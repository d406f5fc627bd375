"""`task`: the lead hands one piece of work to a child."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

from langchain_core.messages import ToolCall
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp
from pydantic import BaseModel

from deerflow.agent.context import RunContext
from deerflow.errors import ThreadGoneError, ToolError
from deerflow.middlewares.subagent_limit import TASK
from deerflow.middlewares.token_usage import add_child
from deerflow.subagents.answers import conclude, tell, tell_cancelled
from deerflow.subagents.roster import Roster, SubagentSpec
from deerflow.subagents.runner import ChildResult, SubagentExecutor
from deerflow.tools.schema import Number, Runtime, make_tool, optional, state_of

MAX_PROMPT = 50_000
"""Characters of a prompt; as many as a window of read_file shows."""
_TOLD = 90
"""Characters of a kind's description in the description of the tool."""


class TaskArgs(BaseModel):
    """Arguments of task."""

    description: str
    prompt: str
    subagent_type: str
    max_turns: Number = optional()


def task_tools(executor: SubagentExecutor, roster: Roster) -> list[BaseTool]:
    """The `task` tool for the kinds of a roster."""

    async def task(
        description: str,
        prompt: str,
        subagent_type: str,
        runtime: Runtime,
        max_turns: int | None = None,
    ) -> Any:
        spec = _checked(roster, subagent_type, prompt, max_turns)
        run = cast("RunContext", runtime.context)
        args = {"description": description, "prompt": prompt, "subagent_type": subagent_type}
        call = ToolCall(name=TASK, args=args, id=runtime.tool_call_id, type="tool_call")
        task_id = call["id"] or ""
        model = spec.model or run.model_name
        with _end_is_told(run, task_id):
            async with executor.room(run):
                _tell_started(run, call, model)
                result = await executor.carry_out(
                    spec, prompt, run, name=task_id, max_turns=max_turns or 0
                )
        add_child(run, task_id, None)
        tell(run, task_id, result)
        return conclude(state_of(runtime), call, result, run, model)

    return [make_tool(TASK, _description(roster), TaskArgs, task, {"idempotent": True})]


def _description(roster: Roster) -> str:
    kinds = "; ".join(
        f"{spec.name}: {_short(spec.description)}" if spec.description else spec.name
        for spec in roster.kinds
    )
    return f"Hand work to a child. Put all it must know into prompt. subagent_type: {kinds}"


def _short(text: str) -> str:
    text = " ".join(text.split()).rstrip(".")
    return text if len(text) <= _TOLD else text[: _TOLD - 1] + "…"


def _checked(roster: Roster, kind: str, prompt: str, max_turns: int | None) -> SubagentSpec:
    spec = roster.get(kind)
    if spec is None:
        names = ", ".join(each.name for each in roster.kinds)
        raise ToolError(f"There is no kind of child called {kind!r}.", cure=f"Kinds: {names}.")
    if not prompt.strip():
        raise ToolError("The prompt is empty.", cure="Say everything that the child must know.")
    if len(prompt) > MAX_PROMPT:
        raise ToolError(
            f"The prompt has {len(prompt):,} characters, at most {MAX_PROMPT:,} are taken.",
            cure="Write the material to a file in /mnt/user-data/workspace and name its path in "
            "the prompt.",
        )
    if max_turns is not None and max_turns < 1:
        raise ToolError(f"max_turns {max_turns} is no number of turns.", cure="Give 1 or more.")
    return spec


def _tell_started(run: RunContext, call: ToolCall, model: str) -> None:
    """Log the start, once: a child that goes on after a kill or an approval has begun already."""
    task_id = call["id"] or ""
    if run.tasks.get(task_id) == "task_started":
        return
    run.tasks[task_id] = "task_started"
    run.emit(
        "task_started",
        {
            "task_id": task_id,
            "tool_call_id": task_id,
            "description": call["args"]["description"],
            "subagent_type": call["args"]["subagent_type"],
            "model": model,
        },
    )


@contextmanager
def _end_is_told(run: RunContext, task_id: str) -> Generator[None]:
    """Whatever ends the child from outside is in the log; what only pauses it is not."""
    try:
        yield
    except (GraphBubbleUp, ThreadGoneError):
        raise
    except asyncio.CancelledError:
        tell_cancelled(run, task_id)
        raise
    except Exception:
        error = {"code": "error", "message": "The child failed by an internal error.", "cure": ""}
        tell(run, task_id, ChildResult("failed", "", error=error))
        raise
