"""Runs children: isolated context, own rows and clock, the thread's files, the lead's budgets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph.state import CompiledStateGraph

from deerflow.agent.build import graph_steps
from deerflow.agent.context import RunContext
from deerflow.agent.record import visible_text
from deerflow.config.schema import SubagentsConfig
from deerflow.subagents.roster import SubagentSpec

Graph = CompiledStateGraph[Any, Any, Any, Any]
ChildStatus = Literal["completed", "failed", "timed_out", "cancelled"]


@dataclass(frozen=True, slots=True)
class ChildResult:
    """How a child ended.

    Attributes:
        status: structured; never read off the text.
        text: its last visible answer, or what it had.
        stop_reason: "" when it finished by itself, else the rule that stopped it.
        turns: model turns it took.
        usage: its own tokens, as `Tokens.to_dict` gives them.
        error: {code, message, cure} or None.
    """

    status: ChildStatus
    text: str
    stop_reason: str = ""
    turns: int = 0
    usage: dict[str, Any] = field(default_factory=dict[str, Any])
    error: dict[str, Any] | None = None


class SubagentExecutor:
    """Runs children of this process under its semaphores.

    Args:
        config: section `subagents`.
        graph: the compiled agent for a kind of child and its context.
    """

    def __init__(
        self,
        config: SubagentsConfig,
        graph: Callable[[SubagentSpec, RunContext], Awaitable[Graph]],
    ) -> None:
        self._config = config
        self._graph = graph
        self._global = asyncio.Semaphore(config.global_)

    async def run(
        self, spec: SubagentSpec, prompt: str, run: RunContext, *, name: str, max_turns: int = 0
    ) -> ChildResult:
        """Run one child to its end.

        The child's graph is nested in the tools node that calls us: its checkpoints have a
        namespace of that call, so after a kill or an approval it goes on where it stopped, and an
        interrupt inside it reaches the lead's run.

        Args:
            spec: its kind.
            prompt: the whole task: the child sees nothing else.
            run: the parent's context.
            name: namespace of the child; the same when the call is entered again.
            max_turns: fewer model turns than the kind allows, 0 for as many.

        Raises:
            GraphBubbleUp: it waits for a human.
            asyncio.CancelledError: the run was stopped.
        """
        turns = min(max_turns or spec.max_turns, spec.max_turns)
        child = run.child(name, spec.model or run.model_name, turns)
        graph = await self._graph(spec, child)
        given: Any = {"messages": [HumanMessage(prompt, id=child.input_id)]}
        config: Any = {"recursion_limit": graph_steps(turns, len(graph.nodes))}
        values = await cast("Any", graph).ainvoke(given, config, context=child)
        return ChildResult("completed", _answer(values["messages"]), turns=child.turn)


def _answer(messages: list[AnyMessage]) -> str:
    for message in reversed(messages):
        if isinstance(message, AIMessage) and visible_text(message):
            return visible_text(message)
    return ""
