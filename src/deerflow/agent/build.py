"""Compiles an agent: create_agent with our chain, state schema and saver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import langchain.agents
from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph

from deerflow.agent.chain import Chain
from deerflow.agent.channels import quicken
from deerflow.agent.context import RunContext
from deerflow.agent.hooks import Middleware
from deerflow.agent.state import ThreadState

STEPS_PER_TURN = 2
"""Graph steps of a model turn: the model node and the tools node."""


@dataclass(frozen=True, slots=True)
class AgentParts:
    """What an agent is compiled from.

    Attributes:
        model: the chat model it starts with.
        tools: offered tools.
        system: system prompt.
        rows: THE LIST as instances, journal rows included.
        extra: third-party middlewares; they stand nearer to model and tools than the chain.
        saver: checkpoint saver, or None under a runner that brings its own.
        context: see Chain.
        name: shown in traces.
    """

    model: BaseChatModel
    tools: Sequence[BaseTool]
    system: str
    rows: Sequence[Middleware]
    extra: Sequence[AgentMiddleware[Any, Any, Any]] = ()
    saver: BaseCheckpointSaver[Any] | None = None
    context: Callable[[Any], RunContext] | None = None
    name: str = field(default="lead")

    def for_runner(
        self, rows: Sequence[Middleware], context: Callable[[Any], RunContext]
    ) -> AgentParts:
        """The same agent under a foreign runner: other rows, its own context, no saver of ours."""
        return replace(self, rows=rows, context=context, saver=None)


def build_agent(parts: AgentParts) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The compiled graph. Building costs about 30 ms; callers keep one per signature."""
    wrapped = any(
        type(m).awrap_tool_call is not AgentMiddleware.awrap_tool_call for m in parts.extra
    )
    chain = Chain(parts.rows, context=parts.context, direct=not wrapped)
    typed_in_part: Any = langchain.agents
    graph = typed_in_part.create_agent(
        parts.model,
        list(parts.tools),
        system_prompt=parts.system,
        middleware=[chain, *parts.extra],
        state_schema=ThreadState,
        # a foreign runner brings a context of its own shape, which is not ours to check
        context_schema=RunContext if parts.context is None else None,
        checkpointer=parts.saver,
    )
    quicken(graph.channels)
    graph.name = parts.name  # create_agent(name=…) would also put it into every AI message
    return graph


def graph_steps(max_turns: int, extra: int = 0) -> int:
    """LangGraph's recursion limit for a number of model turns.

    Limits count model turns (decision 4); this bound only has to be out of their way: two steps a
    turn, the nodes of third-party middlewares, and room for the last answer and one reminder.

    Args:
        max_turns: model turns that the run may take.
        extra: graph nodes that third-party middlewares add to a turn.
    """
    return (STEPS_PER_TURN + extra) * (max_turns + 3) + 10
