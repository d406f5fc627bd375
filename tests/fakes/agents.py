"""Runs an agent of rows 14 to 17, the reply edge and the journal through create_agent."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AnyMessage
from langchain_core.tools import BaseTool, tool

from deerflow.agent.build import AgentParts, build_agent
from deerflow.agent.context import RunContext
from deerflow.agent.hooks import Middleware
from deerflow.agent.journal import Codec, ModelJournal, ToolJournal
from deerflow.agent.reply_edge import ReplyEdge
from deerflow.config.models import CircuitBreakerConfig, LlmCallConfig
from deerflow.config.tools import LoopDetectionConfig
from deerflow.middlewares.llm_error_handling import LLMErrorHandlingMiddleware
from deerflow.middlewares.loop_detection import LoopDetectionMiddleware
from deerflow.middlewares.safety_finish_reason import SafetyFinishReasonMiddleware
from deerflow.middlewares.token_usage import TokenUsageMiddleware
from deerflow.middlewares.tool_error_handling import ToolErrorHandlingMiddleware
from deerflow.models.resilience import Resilience
from fakes.catalogs import ScriptedCatalog
from fakes.rows import run_context, user


async def no_wait(_seconds: float) -> None:
    return None


@dataclass
class ModelRows:
    """An agent of one thread; `catalog` holds its scripted models, the first one is asked."""

    catalog: ScriptedCatalog
    call: LlmCallConfig = field(default_factory=LlmCallConfig)
    effects: list[str] = field(default_factory=list[str])
    messages: list[AnyMessage] = field(default_factory=list[AnyMessage])

    def __post_init__(self) -> None:
        self.guard = Resilience(
            self.call, CircuitBreakerConfig(), sleep=no_wait, rng=random.Random(1)
        )
        codec = Codec()
        rows: list[Middleware] = [
            LoopDetectionMiddleware(LoopDetectionConfig()),
            ReplyEdge(),
            LLMErrorHandlingMiddleware(self.catalog, self.guard),
            SafetyFinishReasonMiddleware(),
            ModelJournal(codec),
            TokenUsageMiddleware(self.catalog),
            ToolErrorHandlingMiddleware(),
            ToolJournal(codec),
        ]
        model = self.catalog.models[self.catalog.default]
        self.graph: Any = build_agent(AgentParts(model, self.tools(), "You help.", rows))

    def tools(self) -> list[BaseTool]:
        @tool
        async def work(step: str) -> str:
            """Do a step."""
            self.effects.append(step)
            return "done"

        return [work]

    async def run(self, text: str = "go", run: RunContext | None = None) -> list[AnyMessage]:
        """One run on the thread; its new messages."""
        run = run or run_context()
        before = len(self.messages)
        said = user(text, id=run.input_id)
        state = await self.graph.ainvoke({"messages": [*self.messages, said]}, context=run)
        self.messages = state["messages"]
        return self.messages[before + 1 :]
