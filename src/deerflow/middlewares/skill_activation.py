"""Row 8: skills are loaded when they are asked for."""

from __future__ import annotations

from langchain.agents.middleware.types import ToolCallRequest

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import Middleware, ModelCall, ModelNext, ModelReply, ToolNext, ToolResult
from deerflow.skills.protocol import SkillStore


class SkillActivationMiddleware(Middleware):
    """Row 8: skills are loaded when they are asked for."""

    def __init__(self, store: SkillStore) -> None:
        self._store = store

    async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
        """Not done yet."""
        return await next_(call)

    async def tool(self, request: ToolCallRequest, next_: ToolNext, run: RunContext) -> ToolResult:
        """Not done yet."""
        return await next_(request)
