"""The composite: hooks in order, legal history by construction, limits, replay after a kill."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, tool
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command

from deerflow.agent.build import AgentParts, build_agent, graph_steps
from deerflow.agent.context import RunContext
from deerflow.agent.hooks import Middleware, ModelCall, ModelNext, ModelReply
from deerflow.agent.journal import LIMIT, UNKNOWN, Codec, ModelJournal, ToolJournal
from deerflow.middlewares.tool_error_handling import ToolErrorHandlingMiddleware
from deerflow.models.scripted import ScriptedChatModel
from deerflow.sandbox.inmemory import InMemoryProvider
from deerflow.sandbox.protocol import ThreadFolders
from deerflow.storage.inmemory import InMemoryStorage
from deerflow.tools.protocol import ToolContext

Script = Sequence[dict[str, Any]]


@dataclass
class Bench:
    """One thread, its stores, and what its tools did."""

    storage: InMemoryStorage = field(default_factory=InMemoryStorage)
    effects: list[str] = field(default_factory=list)
    key: str = ""

    def tools(self) -> list[BaseTool]:
        @tool
        async def add(a: int, b: int, runtime: ToolRuntime[ToolContext, Any]) -> str:
            """Add."""
            self.effects.append(f"add {a} {b} {runtime.tool_call_id}")
            return str(a + b)

        @tool
        async def keep(path: str, runtime: ToolRuntime[ToolContext, Any]) -> Command[Any]:
            """Keep a path."""
            message = ToolMessage("kept", tool_call_id=runtime.tool_call_id or "", name="keep")
            return Command(update={"artifacts": [path], "messages": [message]})

        @tool(response_format="content_and_artifact")
        async def frame() -> tuple[str, Any]:
            """Give text and something that no store takes."""
            self.effects.append("frame")
            return "three rows", {"handle": object()}

        return [add, keep, frame]

    async def context(self, run_id: str = "r1", **facts: Any) -> RunContext:
        thread = await self.storage.threads.ensure("u", "t")
        self.key = thread.thread_key
        folders = ThreadFolders(Path("/nonexistent"))
        return RunContext(
            "u", "t", self.key, run_id, folders, self.storage, InMemoryProvider(), "m", **facts
        )

    def graph(
        self, script: Script, rows: Sequence[Middleware] = (), extra: Sequence[Any] = ()
    ) -> Any:
        codec = Codec()
        chain = [*rows, ModelJournal(codec), ToolErrorHandlingMiddleware(), ToolJournal(codec)]
        model = ScriptedChatModel(script=list(script))
        self.model = model
        return build_agent(AgentParts(model, self.tools(), "sys", chain, extra, self.storage.saver))

    async def run(self, graph: Any, run: RunContext, text: str | None = "hi") -> dict[str, Any]:
        config = {"configurable": {"thread_id": self.key}, "recursion_limit": graph_steps(50)}
        start = {"messages": [HumanMessage(text, id=run.input_id)]} if text is not None else None
        return await graph.ainvoke(start, config, context=run, durability="sync")

    async def events(self, kind: str) -> list[dict[str, Any]]:
        return [e.payload for e in await self.storage.events.read(self.key) if e.type == kind]


def calls(*names: tuple[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"calls": [{"name": n, "args": a} for n, a in names], **more}


class Tracer(Middleware):
    """Writes each hook into a list."""

    def __init__(self, name: str, seen: list[str]) -> None:
        self.name, self.seen = name, seen

    async def start(self, state: dict[str, Any], run: RunContext) -> dict[str, Any] | None:
        self.seen.append(f"{self.name}.start {state['title']!r}")
        return {"title": self.name}

    async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
        self.seen.append(f"{self.name}.model {call.turn}")
        reply = await next_(call)
        self.seen.append(f"{self.name}.after")
        return reply

    async def tool(self, request: Any, next_: Any, run: RunContext) -> Any:
        self.seen.append(f"{self.name}.tool")
        return await next_(request)

    async def finish(self, state: dict[str, Any], run: RunContext) -> dict[str, Any] | None:
        self.seen.append(f"{self.name}.finish {state['messages'][-1].content}")
        return {"artifacts": [self.name]}


async def test_hooks_run_down_the_list_and_wrap_outermost_first() -> None:
    bench, seen = Bench(), []
    graph = bench.graph(
        [calls(("add", {"a": 1, "b": 2})), {"text": "3"}], [Tracer("x", seen), Tracer("y", seen)]
    )
    state = await bench.run(graph, await bench.context())
    assert seen == [
        "x.start ''", "y.start 'x'",
        "x.model 1", "y.model 1", "y.after", "x.after",
        "x.tool", "y.tool",
        "x.model 2", "y.model 2", "y.after", "x.after",
        "x.finish 3", "y.finish 3",
    ]  # fmt: skip
    assert state["title"] == "y"
    assert state["artifacts"] == ["x", "y"]


async def test_a_run_of_plain_turns_writes_three_checkpoints() -> None:
    bench = Bench()
    graph = bench.graph([{"text": "hello"}], [Tracer("x", [])])
    await bench.run(graph, await bench.context())
    config = {"configurable": {"thread_id": bench.key}}
    assert len([c async for c in bench.storage.saver.alist(config)]) <= 3


async def test_messages_of_start_replace_in_place() -> None:
    class Mark(Middleware):
        async def start(self, state: dict[str, Any], run: RunContext) -> dict[str, Any] | None:
            last = state["messages"][-1]
            return {"messages": [last.model_copy(update={"additional_kwargs": {"mark": 1}})]}

    bench = Bench()
    state = await bench.run(bench.graph([{"text": "ok"}], [Mark()]), await bench.context())
    assert [m.type for m in state["messages"]] == ["human", "ai"]
    assert state["messages"][0].additional_kwargs == {"mark": 1}


async def test_repeated_ids_of_an_endpoint_are_renamed() -> None:
    same = {"calls": [{"name": "add", "args": {"a": 1, "b": 1}, "id": "call_0"}]}
    bench = Bench()
    state = await bench.run(bench.graph([same, same, {"text": "2"}]), await bench.context())
    ids = [c["id"] for m in state["messages"] if isinstance(m, AIMessage) for c in m.tool_calls]
    answered = [m.tool_call_id for m in state["messages"] if isinstance(m, ToolMessage)]
    assert len(set(ids)) == 2
    assert ids == answered
    assert len(bench.effects) == 2


async def test_refused_calls_are_answered_in_place_and_never_run() -> None:
    class Refuse(Middleware):
        async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
            reply = await next_(call)
            if reply.message is not None and reply.message.tool_calls:
                refused = reply.message.tool_calls[1]["id"]
                reply.results.append(ToolMessage("refused by rule", tool_call_id=refused))
            return reply

    bench = Bench()
    three = [("add", {"a": n, "b": 0}) for n in (1, 2, 3)]
    state = await bench.run(
        bench.graph([calls(*three), {"text": "ok"}], [Refuse()]), await bench.context()
    )
    results = [m for m in state["messages"] if isinstance(m, ToolMessage)]
    assert [m.content for m in results] == ["1", "refused by rule", "3"]
    assert [m.status for m in results] == ["success", "error", "success"]
    assert len(bench.effects) == 2


async def test_a_run_that_ends_with_calls_open_stays_legal() -> None:
    class End(Middleware):
        async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
            reply = await next_(call)
            reply.jump = "end"
            return reply

    bench = Bench()
    graph = bench.graph([calls(("add", {"a": 1, "b": 1}), ("add", {"a": 2, "b": 2}))], [End()])
    state = await bench.run(graph, await bench.context())
    assert [m.type for m in state["messages"]] == ["human", "ai", "tool", "tool"]
    assert bench.effects == []
    assert len(await bench.events("message")) == 3


async def test_jump_to_model_asks_again_with_the_added_message() -> None:
    class Again(Middleware):
        async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
            reply = await next_(call)
            if call.turn == 1:
                reply.update["messages"] = [HumanMessage("again")]
                reply.jump = "model"
            return reply

    bench = Bench()
    state = await bench.run(
        bench.graph([{"text": "a"}, {"text": "b"}], [Again()]), await bench.context()
    )
    assert [m.content for m in state["messages"]] == ["hi", "a", "again", "b"]


async def test_the_turn_limit_counts_model_turns_and_says_so() -> None:
    bench = Bench()
    script = [calls(("add", {"a": n, "b": 0})) for n in range(3)]
    state = await bench.run(bench.graph(script), await bench.context(max_turns=3))
    last = state["messages"][-1]
    assert last.additional_kwargs[LIMIT] == {"rule": "max_turns", "used": 3, "limit": 3}
    assert len(bench.effects) == 3
    assert (await bench.events("guard"))[0]["limit"] == 3


async def test_a_hundred_turns_run_to_their_end() -> None:
    bench = Bench()
    script = [calls(("add", {"a": n, "b": 0})) for n in range(99)]
    graph = bench.graph([*script, {"text": "done"}])
    run = await bench.context(max_turns=100)
    config = {"configurable": {"thread_id": bench.key}, "recursion_limit": graph_steps(100)}
    start = {"messages": [HumanMessage("hi", id=run.input_id)]}
    state = await graph.ainvoke(start, config, context=run)
    assert state["messages"][-1].content == "done"


async def test_a_command_result_updates_state_and_log() -> None:
    bench = Bench()
    graph = bench.graph([calls(("keep", {"path": "a"}), ("keep", {"path": "b"})), {"text": "ok"}])
    state = await bench.run(graph, await bench.context())
    assert state["artifacts"] == ["a", "b"]
    kinds = [m["message"]["type"] for m in await bench.events("message")]
    assert kinds == ["ai", "tool", "tool", "ai"]


async def test_a_resumed_run_pays_no_finished_call_again() -> None:
    bench = Bench()
    script = [calls(("add", {"a": 1, "b": 2}), ("keep", {"path": "x"})), {"text": "done"}]
    first = await bench.context()
    await bench.run(bench.graph(script), first)
    spent = len(bench.effects)
    fresh = InMemoryStorage()  # same journal, no checkpoint: as if the kill came before it
    thread = await fresh.threads.ensure("u", "t")
    fresh.journal = bench.storage.journal
    again = Bench(storage=fresh, key=thread.thread_key)
    context = await again.context(resumed=True)
    context.thread_key = bench.key
    graph = again.graph([])
    state = await graph.ainvoke(
        {"messages": [HumanMessage("hi", id=context.input_id)]},
        {"configurable": {"thread_id": "x"}},
        context=context,
    )
    assert state["messages"][-1].content == "done"
    assert state["artifacts"] == ["x"]
    assert again.effects == []
    assert spent == 1


async def test_an_effect_that_was_started_is_not_repeated() -> None:
    bench = Bench()
    run = await bench.context(resumed=True)

    class Killed(Middleware):
        async def tool(self, request: Any, next_: Any, run: RunContext) -> Any:
            from deerflow.agent.calls import CallBook  # noqa: PLC0415
            from deerflow.storage.protocol import CallKey  # noqa: PLC0415

            place = run.scratch[CallBook].place(request.state["messages"], request.tool_call["id"])
            key = CallKey(run.thread_key, run.run_id, "", place.message_id, place.index)
            await run.storage.journal.tool_started(key, "add")
            return await next_(request)

    graph = bench.graph([calls(("add", {"a": 1, "b": 2})), {"text": "ok"}], [Killed()])
    state = await bench.run(graph, run)
    assert state["messages"][2].content == UNKNOWN
    assert bench.effects == []


async def test_third_party_middleware_stands_nearer_to_model_and_tools() -> None:
    seen: list[str] = []

    class Foreign(AgentMiddleware[Any, Any, Any]):
        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            seen.append("foreign.model")
            return await handler(request)

        async def awrap_tool_call(
            self, request: Any, handler: Callable[[Any], Awaitable[Any]]
        ) -> Any:
            seen.append("foreign.tool")
            return await handler(request)

    bench = Bench()
    graph = bench.graph(
        [calls(("add", {"a": 1, "b": 2})), {"text": "3"}], [Tracer("x", seen)], [Foreign()]
    )
    await bench.run(graph, await bench.context())
    assert seen.index("x.model 1") < seen.index("foreign.model") < seen.index("x.after")
    assert seen.index("x.tool") < seen.index("foreign.tool")


async def test_an_artifact_that_cannot_be_stored_does_not_cost_the_result() -> None:
    bench = Bench()
    graph = bench.graph([calls(("frame", {})), {"text": "done"}])
    state = await bench.run(graph, await bench.context())
    result = state["messages"][2]
    assert (result.content, result.status, result.artifact) == ("three rows", "success", None)
    assert bench.effects == ["frame"]


async def test_events_of_langchain_work_too() -> None:
    bench = Bench()
    graph = bench.graph([calls(("add", {"a": 1, "b": 2})), {"text": "3"}])
    run = await bench.context()
    kinds = set()
    start = {"messages": [HumanMessage("hi", id=run.input_id)]}
    config = {"configurable": {"thread_id": bench.key}}
    async for event in graph.astream_events(start, config, context=run, version="v2"):
        kinds.add(event["event"])
    assert {"on_chat_model_end", "on_tool_end"} <= kinds
    assert len(bench.effects) == 1


async def test_concurrent_runs_of_one_graph_do_not_meet() -> None:
    bench = Bench()
    graph = bench.graph([{"text": "same"}] * 20)
    contexts = []
    for number in range(20):
        thread = await bench.storage.threads.ensure("u", f"t{number}")
        run = await bench.context(run_id=f"r{number}")
        run.thread_key = thread.thread_key
        contexts.append(run)

    async def one(run: RunContext) -> Any:
        start = {"messages": [HumanMessage(run.run_id, id=run.input_id)]}
        config = {"configurable": {"thread_id": run.thread_key}}
        return await graph.ainvoke(start, config, context=run)

    states = await asyncio.gather(*(one(run) for run in contexts))
    assert [s["messages"][0].content for s in states] == [f"r{n}" for n in range(20)]
    assert all(run.turn == 1 for run in contexts)


async def test_without_a_context_the_error_is_clear() -> None:
    bench = Bench()
    await bench.context()
    graph = bench.graph([{"text": "x"}])
    with pytest.raises(TypeError, match="RunContext"):
        await graph.ainvoke({"messages": [HumanMessage("x")]}, {"configurable": {"thread_id": "x"}})
