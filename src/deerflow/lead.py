"""The lead agent: rows made from configuration, agents compiled once per signature."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from langchain.agents.middleware.types import AgentMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph

from deerflow.agent.build import AgentParts, build_agent
from deerflow.agent.context import Audience
from deerflow.agent.deliverables import Deliverables
from deerflow.agent.hooks import Middleware
from deerflow.agent.journal import Codec, ModelJournal, ToolJournal
from deerflow.agent.prompt import PromptFacts, apply_prompt_template
from deerflow.agent.reply_edge import ReplyEdge
from deerflow.config.schema import AppConfig
from deerflow.errors import NotFoundError
from deerflow.middlewares.llm_error_handling import LLMErrorHandlingMiddleware
from deerflow.middlewares.loop_detection import LoopDetectionMiddleware
from deerflow.middlewares.order import rows_for
from deerflow.middlewares.read_before_write import ReadBeforeWriteMiddleware
from deerflow.middlewares.safety_finish_reason import SafetyFinishReasonMiddleware
from deerflow.middlewares.title import TitleMiddleware
from deerflow.middlewares.token_usage import TokenUsageMiddleware
from deerflow.middlewares.tool_output_budget import ToolOutputBudgetMiddleware
from deerflow.middlewares.view_image import ViewImageMiddleware
from deerflow.models.protocol import Catalog, ModelSpec
from deerflow.models.resilience import Resilience
from deerflow.plugins import load_detectors

Graph = CompiledStateGraph[Any, Any, Any, Any]
Maker = Callable[[], Middleware]

VIEW_IMAGE = "view_image"
COMPACT_TOOLS = ("write_file", "read_file", "bash", "present_files", "ask_clarification")
"""Tools of the compact profile: few, so that a small window is not spent on schemas."""


@dataclass(frozen=True, slots=True)
class LeadParts:
    """What lead agents are made from.

    Attributes:
        config: the whole configuration; each row gets its own section.
        catalog: the models.
        resilience: retries, limits and breakers of this process.
        tools: every tool that the configuration offers.
        saver: checkpoint saver, or None under a runner that brings its own.
        extra: third-party middlewares, nearer to the model than the chain.
        sandbox_python: what the sandbox's Python offers, for the prompt.
    """

    config: AppConfig
    catalog: Catalog
    resilience: Resilience
    tools: Sequence[BaseTool]
    saver: BaseCheckpointSaver[Any] | None = None
    extra: Sequence[AgentMiddleware[Any, Any, Any]] = ()
    sandbox_python: str | None = None


class LeadAgents:
    """Compiled lead agents, one per configuration signature (building one costs about 30 ms)."""

    def __init__(self, parts: LeadParts) -> None:
        self._parts = parts
        self._graphs: dict[tuple[str, bool], Graph] = {}
        self._lock = asyncio.Lock()

    async def __call__(self, model: str, plan: bool = False) -> Graph:
        """The agent for a model; plan mode is a fact of the run, so it shares the graph.

        Raises:
            NotFoundError: unknown model.
            ConfigError: the model's class or key is wrong.
        """
        del plan
        key = (model, False)
        async with self._lock:
            if key not in self._graphs:
                self._graphs[key] = build_agent(self.parts_of(model))
        return self._graphs[key]

    def parts_of(self, name: str) -> AgentParts:
        """What the agent for a model is compiled from."""
        parts = self._parts
        spec = parts.catalog.spec(name)
        tools = parts.tools
        if spec.compact:
            tools = [tool for tool in tools if tool.name in COMPACT_TOOLS]
        if not spec.vision:
            tools = [tool for tool in tools if tool.name != VIEW_IMAGE]
        facts = PromptFacts(
            compact=spec.compact,
            sandbox_python=parts.sandbox_python,
            network=parts.config.sandbox.network,
        )
        return AgentParts(
            model=parts.catalog.get(name),
            tools=tools if spec.tools else [],
            system=apply_prompt_template(facts),
            rows=build_rows(parts),
            extra=parts.extra,
            saver=parts.saver,
        )


def build_rows(parts: LeadParts, audience: Audience = "lead") -> list[Middleware]:
    """THE LIST as instances, under the kernel's own row for deliverables.

    Args:
        parts: where each row finds its section.
        audience: whose rows.
    """
    config, catalog = parts.config, parts.catalog
    codec = Codec()
    title_model = config.title.model_name
    made: Mapping[type[Middleware], Maker] = {
        ViewImageMiddleware: lambda: ViewImageMiddleware(vision=_asks(catalog, "vision")),
        LoopDetectionMiddleware: lambda: LoopDetectionMiddleware(config.loop_detection),
        LLMErrorHandlingMiddleware: lambda: LLMErrorHandlingMiddleware(catalog, parts.resilience),
        SafetyFinishReasonMiddleware: lambda: SafetyFinishReasonMiddleware(
            load_detectors(config.safety_finish_reason.detectors)
        ),
        ModelJournal: lambda: ModelJournal(codec),
        TokenUsageMiddleware: lambda: TokenUsageMiddleware(catalog),
        ReadBeforeWriteMiddleware: lambda: ReadBeforeWriteMiddleware(
            config=config.read_before_write
        ),
        ToolOutputBudgetMiddleware: lambda: ToolOutputBudgetMiddleware(config=config.tool_output),
        ToolJournal: lambda: ToolJournal(codec),
        TitleMiddleware: lambda: TitleMiddleware(
            config=config.title, model=catalog.get(title_model) if title_model else None
        ),
    }
    skipped: set[type[Middleware]] = set()
    if not config.loop_detection.enabled:
        skipped.add(LoopDetectionMiddleware)
    if not config.safety_finish_reason.enabled:
        skipped.add(SafetyFinishReasonMiddleware)
    rows: list[Middleware] = [Deliverables(_asks(catalog, "compact"))]
    for row in rows_for(audience):
        if row.cls is LLMErrorHandlingMiddleware:
            rows.append(ReplyEdge())  # outside the retries: asking again has retries of its own
        if row.cls not in skipped:
            rows.append(made.get(row.cls, cast("Maker", row.cls))())
    return rows


def _asks(catalog: Catalog, fact: str) -> Callable[[BaseChatModel], bool]:
    """A predicate over models: one boolean fact of their spec; False for a stranger's model."""

    def holds(model: BaseChatModel) -> bool:
        try:
            spec: ModelSpec = catalog.spec_of(model)
        except NotFoundError:
            return False
        return bool(getattr(spec, fact))

    return holds
