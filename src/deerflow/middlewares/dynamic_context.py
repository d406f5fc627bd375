"""Row 7: date and memory as volatile text after the cached prefix.

The system prompt stays byte-stable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import Any, cast

from langchain_core.messages import AnyMessage

from deerflow.agent.context import RunContext
from deerflow.agent.hooks import Middleware, ModelCall, ModelNext, ModelReply
from deerflow.agent.state import MemoryState
from deerflow.memory.protocol import MemoryManager
from deerflow.middlewares.delimiters import MEMORY_TAG, REMINDER_TAG, after, block
from deerflow.middlewares.requests import is_request, last_request

MARK = "deerflow_date"
"""additional_kwargs of a request: the day on which it was made, ISO 8601."""

READ_CHARS = 4_000
"""Of the request, to find the facts that matter for it."""

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def local_now() -> datetime:
    """The present moment in the machine's time zone."""
    return datetime.now(UTC).astimezone()


class DynamicContextMiddleware(Middleware):
    """Notes the day on a request when it is a new one, and what is remembered of the user.

    A note reads the same on every turn of a run and after a resume. The memory goes with the newest
    request alone; children get none.

    Args:
        now: the clock; its zone decides what day it is.
        memory: what is remembered of the user, None to show nothing.
    """

    def __init__(
        self, *, now: Callable[[], datetime] = local_now, memory: MemoryManager | None = None
    ) -> None:
        self._now = now
        self._memory = memory

    async def start(self, state: dict[str, Any], run: RunContext) -> dict[str, Any] | None:
        """Note the day on the request, and in the state what is remembered for it."""
        messages: list[AnyMessage] = state["messages"]
        index = last_request(messages)
        if index < 0 or not messages[index].id:
            return None
        request = messages[index]
        update: dict[str, Any] = {}
        today = run.scratch[DynamicContextMiddleware] = self._day(run)
        extra = {k: v for k, v in request.additional_kwargs.items() if k != MARK}
        if _last_noted(messages[:index]) != today:
            extra[MARK] = today.isoformat()
        if extra != request.additional_kwargs:
            update["messages"] = [request.model_copy(update={"additional_kwargs": extra})]
        memory = await self._remembered(request, run)
        if memory is not None or state.get("memory") is not None:
            update["memory"] = memory
        return update or None

    async def _remembered(self, request: AnyMessage, run: RunContext) -> MemoryState | None:
        if self._memory is None or run.audience == "child":
            return None
        text = await self._memory.context(run.user_id, str(request.text)[:READ_CHARS])
        return MemoryState(request=request.id or "", text=text) if text else None

    async def model(self, call: ModelCall, next_: ModelNext) -> ModelReply:
        """Render the notes; without any (compacted away) the day goes after the newest request."""
        messages = list(call.messages)
        noted = False
        for index, message in enumerate(messages):
            day = _noted(message)
            if day is not None:
                messages[index] = after(message, _rendered(day))
                noted = True
        newest = last_request(messages)
        if not noted and newest >= 0:
            day = call.run.scratch.setdefault(DynamicContextMiddleware, self._day(call.run))
            messages[newest] = after(messages[newest], _rendered(day))
        memory = cast("MemoryState | None", call.state.get("memory"))
        if memory is not None and newest >= 0 and call.run.audience == "lead":
            place = next((i for i, m in enumerate(messages) if m.id == memory["request"]), newest)
            messages[place] = after(messages[place], block(MEMORY_TAG, memory["text"]))
        return await next_(call.with_(messages=messages))

    def _day(self, run: RunContext) -> date:
        """Today; for an item of a batch the batch's day, so that a resume asks the same."""
        return date.fromisoformat(run.batch_day) if run.batch_day else self._now().date()


def _noted(message: AnyMessage) -> date | None:
    value = message.additional_kwargs.get(MARK)
    if not isinstance(value, str) or not is_request(message):
        return None
    try:
        return date.fromisoformat(value)
    except ValueError:
        return None


def _last_noted(messages: Sequence[AnyMessage]) -> date | None:
    for message in reversed(messages):
        day = _noted(message)
        if day is not None:
            return day
    return None


def _rendered(day: date) -> str:
    return block(REMINDER_TAG, f"Today is {_DAYS[day.weekday()]}, {day.isoformat()}.")
