"""Row 12: what a run, a user or a day may use."""

from __future__ import annotations

from deerflow.agent.hooks import Middleware, ModelCall, ModelNext, ModelReply
from deerflow.config.schema import SubagentTokenBudgetConfig, TokenBudgetConfig
from deerflow.models.protocol import Catalog


class TokenBudgetMiddleware(Middleware):
    """Row 12: what a run, a user or a day may use."""

    def __init__(
        self, config: TokenBudgetConfig, child: SubagentTokenBudgetConfig, catalog: Catalog
    ) -> None:
        self._config = config
        self._child = child
        self._catalog = catalog

    async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
        """Not done yet."""
        return await next_(call)
