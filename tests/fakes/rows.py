"""Runs rows of the list by hand: real stores in memory and the folding of the chain."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime

from deerflow.agent.context import RunContext
from deerflow.agent.execute import normalise
from deerflow.agent.hooks import Middleware, ModelCall, ModelReply, ToolResult
from deerflow.agent.state import apply_update
from deerflow.models.scripted import ScriptedChatModel
from deerflow.sandbox.inmemory import InMemoryProvider
from deerflow.sandbox.protocol import ThreadFolders
from deerflow.storage.inmemory import InMemoryStorage

HOST = Path("/nowhere/users/ann/threads/key/user-data")


def run_context(root: Path = HOST, **facts: Any) -> RunContext:
    """A run of user "ann" in thread "t"."""
    values: dict[str, Any] = {
        "user_id": "ann",
        "thread_id": "t",
        "thread_key": "key",
        "run_id": "r1",
        "folders": ThreadFolders(root),
        "storage": InMemoryStorage(),
        "provider": InMemoryProvider(),
        "model_name": "scripted",
    }
    return RunContext(**{**values, **facts})


def user(text: Any, id: str = "in-r1", **extra: Any) -> HumanMessage:
    """A human message."""
    return HumanMessage(content=text, id=id, additional_kwargs=extra)


def calls(*names: str, id: str = "a1", **args: Any) -> AIMessage:
    """An AI message that calls tools; the call of tool "x" has the id "c-x"."""
    return AIMessage(
        content="",
        id=id,
        tool_calls=[{"name": n, "args": args, "id": f"c-{n}", "type": "tool_call"} for n in names],
    )


def result(name: str, text: Any = "done", id: str | None = None, **fields: Any) -> ToolMessage:
    """The result of `calls(name)`."""
    return ToolMessage(
        content=text, name=name, tool_call_id=f"c-{name}", id=id or f"r-{name}", **fields
    )


async def started(
    rows: Sequence[Middleware], state: dict[str, Any], run: RunContext
) -> dict[str, Any]:
    """The state after the start hooks, folded in one by one."""
    for row in rows:
        change = await row.start(state, run)
        if change:
            state = apply_update(state, change)
    return state


async def turn(
    rows: Sequence[Middleware],
    state: dict[str, Any],
    run: RunContext,
    reply: AIMessage | None = None,
    model: ScriptedChatModel | None = None,
    tools: Sequence[BaseTool] = (),
) -> tuple[list[AnyMessage] | None, ModelReply]:
    """One model turn: what reached the model (None when it was not asked) and the reply."""
    sent: list[list[AnyMessage]] = []

    async def terminal(call: ModelCall) -> ModelReply:
        sent.append(call.messages)
        return ModelReply(reply or AIMessage(content="done", id=f"ai-{run.turn}"))

    step: Callable[[ModelCall], Awaitable[ModelReply]] = terminal
    for row in reversed(rows):
        step = partial(row.model, next_=step)
    call = ModelCall(
        model=model or ScriptedChatModel(),
        messages=state["messages"],
        system=None,
        tools=tools,
        settings={},
        state=state,
        run=run,
        turn=run.turn + 1,
    )
    answer = await step(call)
    run.turn += 1
    return (sent[-1] if sent else None), answer


def tool(
    name: str, function: Callable[..., Awaitable[Any]] | None = None, **marks: bool
) -> BaseTool:
    """A tool with marks; without a function its result is "done"."""

    async def done() -> str:
        return "done"

    return StructuredTool.from_function(
        coroutine=function or done,
        name=name,
        description=f"The tool {name}.",
        metadata={"deerflow": marks},
    )


def request(
    target: BaseTool | None,
    run: RunContext,
    state: dict[str, Any] | None = None,
    name: str = "",
    **args: Any,
) -> ToolCallRequest:
    """The request for a call of a tool."""
    held = state if state is not None else {"messages": []}
    name = name or (target.name if target else "unknown")
    runtime: ToolRuntime[Any, Any] = ToolRuntime(
        state=held,
        context=run,
        config={},
        stream_writer=lambda _: None,
        tool_call_id=f"c-{name}",
        store=None,
    )
    return ToolCallRequest(
        tool_call={"name": name, "args": args, "id": f"c-{name}", "type": "tool_call"},
        tool=target,
        state=held,
        runtime=runtime,
    )


async def call_tool(
    rows: Sequence[Middleware],
    run: RunContext,
    call: ToolCallRequest,
    effect: Callable[..., Awaitable[Any]],
) -> ToolResult:
    """One tool call through the rows; `effect` is given the arguments and stands for the tool."""

    async def terminal(inner: ToolCallRequest) -> ToolResult:
        return normalise(await effect(**inner.tool_call["args"]), inner)

    step: Callable[[ToolCallRequest], Awaitable[ToolResult]] = terminal
    for row in reversed(rows):
        step = partial(row.tool, next_=step, run=run)
    return await step(call)


async def events(run: RunContext, *types: str) -> list[dict[str, Any]]:
    """Payloads of the run's events of these types, in order."""
    log = await run.storage.events.read(run.thread_key)
    return [event.payload for event in log if event.type in types]
