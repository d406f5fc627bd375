"""Row 13: how many children a turn and a run may start."""

from __future__ import annotations

from langchain.agents.middleware.types import ToolCallRequest

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import Middleware, ToolNext, ToolResult
from deerflow.config.schema import SubagentsConfig


class SubagentLimitMiddleware(Middleware):
    """Row 13: how many children a turn and a run may start."""

    def __init__(self, config: SubagentsConfig) -> None:
        self._config = config

    async def tool(self, request: ToolCallRequest, next_: ToolNext, run: RunContext) -> ToolResult:
        """Not done yet."""
        return await next_(request)
