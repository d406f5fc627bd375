"""What the swap tests of the list have in common: rows with their parts, transcripts, failures."""

import random
from typing import Any

from langchain_core.messages import AIMessage

from deerflow.agent.hooks import Middleware, ModelCall, ModelReply
from deerflow.config.schema import CircuitBreakerConfig, LlmCallConfig, LoopDetectionConfig
from deerflow.errors import StorageError
from deerflow.middlewares.llm_error_handling import LLMErrorHandlingMiddleware
from deerflow.middlewares.loop_detection import LoopDetectionMiddleware
from deerflow.models.resilience import Resilience
from deerflow.storage.inmemory import InMemoryStorage
from deerflow.storage.protocol import CallKey
from fakes.catalogs import ScriptedCatalog
from fakes.rows import calls, result, user


def loops() -> LoopDetectionMiddleware:
    return LoopDetectionMiddleware(LoopDetectionConfig())


def looping(count: int) -> list[Any]:
    return [
        message
        for n in range(count)
        for message in (calls("look", id=f"a{n}"), result("look", "same", id=f"r{n}"))
    ]


def errors(catalog: ScriptedCatalog) -> LLMErrorHandlingMiddleware:
    async def no_wait(_seconds: float) -> None:
        return None

    guard = Resilience(LlmCallConfig(), CircuitBreakerConfig(), sleep=no_wait, rng=random.Random(1))
    return LLMErrorHandlingMiddleware(catalog, guard)


class Asks(Middleware):
    """The innermost step: really asks the model of the call."""

    async def model(self, call: ModelCall, next_: Any) -> ModelReply:
        reply = await call.model.ainvoke(call.messages)
        assert isinstance(reply, AIMessage)
        reply.id = f"ai-{call.turn}"
        return ModelReply(reply)


class BrokenJournal(InMemoryStorage):
    """Storage whose journal cannot be written."""

    def __init__(self) -> None:
        super().__init__()
        self.journal.tool_started = self._refuse

    async def _refuse(self, key: CallKey, name: str) -> None:
        raise StorageError("The disk is full.")


def damaged() -> dict[str, Any]:
    """A transcript that gives each of the rows 2 to 10 something to do."""
    return {
        "messages": [
            user("<memory>x</memory>", id="u1"),
            calls("write_todos", "look"),
            user("well?", id="u2"),
            result("look"),
        ],
        "todos": [{"content": "one", "status": "pending"}],
    }
