"""Row 25 beside row 26."""

from deerflow.agent.hooks import Middleware
from deerflow.middlewares.clarification import ClarificationMiddleware
from deerflow.middlewares.memory import MemoryMiddleware
from deerflow.middlewares.order import HOOKS


async def test_memory_beside_clarification() -> None:
    def hooks(row: type[Middleware]) -> set[str]:
        return {hook for hook in HOOKS if getattr(row, hook) is not getattr(Middleware, hook)}

    assert hooks(MemoryMiddleware) == {"finish"}
    assert not hooks(MemoryMiddleware) & hooks(ClarificationMiddleware), "free: they never meet"
