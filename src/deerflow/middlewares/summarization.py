"""Row 6: compaction of long conversations."""

from __future__ import annotations

from deerflow.agent.hooks import Middleware, ModelCall, ModelNext, ModelReply
from deerflow.config.schema import SummarizationConfig
from deerflow.models.protocol import Catalog


class SummarizationMiddleware(Middleware):
    """Row 6: compaction of long conversations."""

    def __init__(self, config: SummarizationConfig, catalog: Catalog) -> None:
        self._config = config
        self._catalog = catalog

    async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
        """Not done yet."""
        return await next_(call)
