"""THE LIST as instances, each row with its own section of the configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from langchain_core.language_models import BaseChatModel

from deerflow.agent.context import Audience
from deerflow.agent.deliverables import Deliverables
from deerflow.agent.hooks import Middleware
from deerflow.agent.journal import Codec, ModelJournal, ToolJournal
from deerflow.agent.reply_edge import ReplyEdge
from deerflow.errors import NotFoundError
from deerflow.lead.parts import LeadParts
from deerflow.memory.protocol import MemoryManager
from deerflow.middlewares.deferred_tool_filter import DeferredToolFilterMiddleware
from deerflow.middlewares.dynamic_context import DynamicContextMiddleware
from deerflow.middlewares.guardrail import GuardrailMiddleware
from deerflow.middlewares.llm_error_handling import LLMErrorHandlingMiddleware
from deerflow.middlewares.loop_detection import LoopDetectionMiddleware
from deerflow.middlewares.memory import MemoryMiddleware
from deerflow.middlewares.order import rows_for
from deerflow.middlewares.read_before_write import ReadBeforeWriteMiddleware
from deerflow.middlewares.safety_finish_reason import SafetyFinishReasonMiddleware
from deerflow.middlewares.skill_activation import SkillActivationMiddleware
from deerflow.middlewares.subagent_limit import SubagentLimitMiddleware
from deerflow.middlewares.summarization import SummarizationMiddleware
from deerflow.middlewares.title import TitleMiddleware
from deerflow.middlewares.token_budget import TokenBudgetMiddleware
from deerflow.middlewares.token_usage import TokenUsageMiddleware
from deerflow.middlewares.tool_output_budget import ToolOutputBudgetMiddleware
from deerflow.middlewares.view_image import ViewImageMiddleware
from deerflow.models.protocol import Catalog, ModelSpec
from deerflow.plugins import load_detectors
from deerflow.skills.protocol import SkillStore
from deerflow.subagents.answers import TaskAnswers

Maker = Callable[[], Middleware]


def build_rows(parts: LeadParts, audience: Audience = "lead") -> list[Middleware]:
    """THE LIST as instances, under the kernel's own row for deliverables.

    Args:
        parts: where each row finds its section.
        audience: whose rows.
    """
    catalog = parts.catalog
    made, skipped = _makers(parts), _switched_off(parts)
    rows: list[Middleware] = [Deliverables(_asks(catalog, "compact"))]
    for row in rows_for(audience):
        if row.cls is LLMErrorHandlingMiddleware:
            rows.append(ReplyEdge())  # outside the retries: asking again has retries of its own
        if row.cls not in skipped:
            rows.append(made.get(row.cls, cast("Maker", row.cls))())
    return rows


def _makers(parts: LeadParts) -> Mapping[type[Middleware], Maker]:
    """Rows that take arguments, in the order of THE LIST."""
    config, catalog, codec = parts.config, parts.catalog, Codec()
    skills = cast("SkillStore", parts.skills)  # a row without its part is switched off
    memory = cast("MemoryManager", parts.memory)
    titles = config.title.model_name
    return {
        SummarizationMiddleware: lambda: SummarizationMiddleware(config.summarization, catalog),
        DynamicContextMiddleware: lambda: DynamicContextMiddleware(
            memory=parts.memory if config.memory.injection_enabled else None
        ),
        SkillActivationMiddleware: lambda: SkillActivationMiddleware(
            skills, deferred=config.skills.deferred_discovery, compact=_asks(catalog, "compact")
        ),
        ViewImageMiddleware: lambda: ViewImageMiddleware(vision=_asks(catalog, "vision")),
        DeferredToolFilterMiddleware: lambda: DeferredToolFilterMiddleware(config.tool_search),
        TokenBudgetMiddleware: lambda: TokenBudgetMiddleware(
            config.token_budget, config.subagents.token_budget, catalog
        ),
        SubagentLimitMiddleware: lambda: SubagentLimitMiddleware(config.subagents, TaskAnswers()),
        LoopDetectionMiddleware: lambda: LoopDetectionMiddleware(config.loop_detection),
        LLMErrorHandlingMiddleware: lambda: LLMErrorHandlingMiddleware(catalog, parts.resilience),
        SafetyFinishReasonMiddleware: lambda: SafetyFinishReasonMiddleware(
            load_detectors(config.safety_finish_reason.detectors)
        ),
        ModelJournal: lambda: ModelJournal(codec),
        TokenUsageMiddleware: lambda: TokenUsageMiddleware(catalog),
        GuardrailMiddleware: lambda: GuardrailMiddleware(config.guardrails, parts.guardrails),
        ReadBeforeWriteMiddleware: lambda: ReadBeforeWriteMiddleware(
            config=config.read_before_write
        ),
        ToolOutputBudgetMiddleware: lambda: ToolOutputBudgetMiddleware(config=config.tool_output),
        ToolJournal: lambda: ToolJournal(codec),
        TitleMiddleware: lambda: TitleMiddleware(
            config=config.title, model=catalog.get(titles) if titles else None, catalog=catalog
        ),
        MemoryMiddleware: lambda: MemoryMiddleware(memory),
    }


def _switched_off(parts: LeadParts) -> set[type[Middleware]]:
    """Rows that the configuration switches off, or that have nothing to work with."""
    config = parts.config
    switches: dict[type[Middleware], bool] = {
        SummarizationMiddleware: config.summarization.enabled,
        SkillActivationMiddleware: parts.skills is not None,
        DeferredToolFilterMiddleware: config.tool_search.enabled,
        SubagentLimitMiddleware: config.subagents.enabled,
        LoopDetectionMiddleware: config.loop_detection.enabled,
        SafetyFinishReasonMiddleware: config.safety_finish_reason.enabled,
        MemoryMiddleware: parts.memory is not None and config.memory.mode == "middleware",
    }
    return {row for row, on in switches.items() if not on}


def _asks(catalog: Catalog, fact: str) -> Callable[[BaseChatModel], bool]:
    """A predicate over models: one boolean fact of their spec; False for a stranger's model."""

    def holds(model: BaseChatModel) -> bool:
        try:
            spec: ModelSpec = catalog.spec_of(model)
        except NotFoundError:
            return False
        return bool(getattr(spec, fact))

    return holds
