"""Row 25: queues the finished exchange for extraction."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import Middleware
from deerflow.agent.journal import LIMIT
from deerflow.agent.record import visible_text
from deerflow.agent.reply_edge import EMPTY
from deerflow.memory.protocol import Exchange, MemoryManager
from deerflow.middlewares.clarification import open_questions
from deerflow.middlewares.requests import COMPACTED, is_request, last_request


class MemoryMiddleware(Middleware):
    """Queues what the user said and what was finally answered, once per run.

    Nothing is asked of a model here, and nothing is waited for: the entry becomes durable with the
    end of the run. Words of runs that were stopped before their end come with the next exchange.

    Args:
        memory: takes the exchange.
        clock: UTC seconds.
    """

    def __init__(self, memory: MemoryManager, *, clock: Callable[[], float] = time.time) -> None:
        self._memory = memory
        self._clock = clock

    async def finish(self, state: dict[str, Any], run: RunContext) -> dict[str, Any] | None:
        """Queue, and tell it; a finish that is resumed does both once."""
        exchange = self._exchange(state["messages"], run)
        if exchange is None:
            return None
        entry_id = await self._memory.queue(run.user_id, run.thread_key, exchange)
        if entry_id and entry_id not in run.completed:
            run.completed.add(entry_id)
            run.emit("memory_queued", {"entry_id": entry_id})
        return None

    def _exchange(self, messages: Sequence[AnyMessage], run: RunContext) -> Exchange | None:
        """The exchange that has just ended; None without words of the user, or after `/compact`."""
        if messages and COMPACTED in messages[-1].additional_kwargs:
            return None
        start = next(
            (i for i in range(len(messages) - 1, -1, -1) if messages[i].id == run.input_id),
            last_request(messages),
        )
        words = _words(messages, start)
        if not words:
            return None
        return Exchange(
            user=words,
            answer=_answer(messages[start + 1 :]),
            message=run.input_id,
            at=self._clock(),
            thread=run.thread_id,
        )


def _words(messages: Sequence[AnyMessage], start: int) -> str:
    """The user's words since the last exchange; an answer to a question comes with the question."""
    said: list[str] = []
    index = start
    while index >= 0 and not _ends_exchange(messages, index):
        if is_request(messages[index]) and (text := visible_text(messages[index])):
            said.insert(0, text)
        index -= 1
    asked = [str(each.get("question", "")) for each in open_questions(messages[: index + 1])]
    if said and any(asked):
        said.insert(0, f"(Asked by the assistant: {' '.join(filter(None, asked))})")
    return "\n\n".join(said)


def _ends_exchange(messages: Sequence[AnyMessage], index: int) -> bool:
    """Whether a message is the last one of an earlier exchange: an answer or a question."""
    message = messages[index]
    if isinstance(message, AIMessage):
        return not message.tool_calls
    return message.type == "tool" and bool(open_questions(messages[: index + 1]))


def _answer(messages: Sequence[AnyMessage]) -> str:
    """The question that ended the run, or its last visible text; notes of ours are no answer."""
    asked = [str(each.get("question", "")) for each in open_questions(messages)]
    if any(asked):
        return " ".join(filter(None, asked))
    for message in reversed(messages):
        if isinstance(message, AIMessage) and (text := visible_text(message)):
            ours = message.additional_kwargs
            if EMPTY not in ours and LIMIT not in ours:
                return text
    return ""
