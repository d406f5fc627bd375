"""Row 25: queues the finished exchange for extraction."""

from __future__ import annotations

from typing import Any

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import Middleware
from deerflow.memory.protocol import MemoryManager


class MemoryMiddleware(Middleware):
    """Row 25: queues the finished exchange for extraction."""

    def __init__(self, memory: MemoryManager) -> None:
        self._memory = memory

    async def finish(self, state: dict[str, Any], run: RunContext) -> dict[str, Any] | None:
        """Not done yet."""
        return None
