"""Row 11: hides rarely needed tools until they are asked for."""

from __future__ import annotations

from deerflow.agent.hooks import Middleware, ModelCall, ModelNext, ModelReply
from deerflow.config.schema import ToolSearchConfig


class DeferredToolFilterMiddleware(Middleware):
    """Row 11: hides rarely needed tools until they are asked for."""

    def __init__(self, config: ToolSearchConfig) -> None:
        self._config = config

    async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
        """Not done yet."""
        return await next_(call)
