"""Row 18: a policy decision before each tool call."""

from __future__ import annotations

from langchain.agents.middleware.types import ToolCallRequest

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import Middleware, ToolNext, ToolResult
from deerflow.config.schema import GuardrailsConfig
from deerflow.guardrails.protocol import GuardrailProvider


class GuardrailMiddleware(Middleware):
    """Row 18: a policy decision before each tool call."""

    def __init__(self, config: GuardrailsConfig, provider: GuardrailProvider) -> None:
        self._config = config
        self._provider = provider

    async def tool(self, request: ToolCallRequest, next_: ToolNext, run: RunContext) -> ToolResult:
        """Not done yet."""
        return await next_(request)
