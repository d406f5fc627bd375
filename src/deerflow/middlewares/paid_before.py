"""Reads off the log what earlier processes paid for a run that is resumed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from deerflow.agent.context import RunContext
from deerflow.events import Event
from deerflow.models.usage import MESSAGE_TOKENS, estimate_text

_LIMIT = "deerflow_limit"


@dataclass(slots=True)
class PaidBefore:
    """What the log tells of a run.

    Attributes:
        tokens: agent → input and output tokens of its turns; of the lead with calls beside them.
        messages: ids of the replies that are in the sums.
        warned: (child or "", rule) of the warnings that were given.
        beside: payloads of the `usage` events.
    """

    tokens: dict[str, tuple[int, int]] = field(default_factory=dict[str, "tuple[int, int]"])
    messages: set[str] = field(default_factory=set[str])
    warned: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    beside: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def add(self, agent: str, taken: int, given: int) -> None:
        """Add a call."""
        before = self.tokens.get(agent, (0, 0))
        self.tokens[agent] = (before[0] + taken, before[1] + given)


async def paid_before(run: RunContext) -> PaidBefore:
    """Sum up the run's replies; one without usage is estimated from what the log has of it."""
    found = PaidBefore()
    sizes: defaultdict[str, int] = defaultdict(int)
    async for event in _events(run):
        payload = event.payload
        agent = str(payload.get("task_id") or run.agent)
        if event.type in ("message", "task_running"):
            _message(found, agent, payload["message"], sizes)
        elif event.type == "usage":
            found.beside.append(payload)
            found.add(agent, payload["usage"]["input"], payload["usage"]["output"])
        elif event.type == "guard" and payload.get("action") == "warned":
            found.warned.add((str(payload.get("task_id") or ""), str(payload["rule"])))
    return found


def _message(
    found: PaidBefore, agent: str, message: dict[str, Any], sizes: defaultdict[str, int]
) -> None:
    size = MESSAGE_TOKENS + estimate_text(str(message.get("content") or ""))
    size += sum(estimate_text(str(call["args"])) for call in message.get("tool_calls") or ())
    if message["type"] == "ai":
        usage = message.get("usage_metadata")
        written_by_us = _LIMIT in (message.get("additional_kwargs") or {})
        if usage:
            found.add(agent, usage["input_tokens"], usage["output_tokens"])
        elif not written_by_us:
            found.add(agent, sizes[agent], size)
        found.messages.add(str(message.get("id")))
    sizes[agent] += size


async def _events(run: RunContext) -> AsyncIterator[Event]:
    after = 0
    while events := await run.storage.events.read(run.thread_key, after=after):
        for event in events:
            if event.run_id == run.run_id:
                yield event
        after = events[-1].seq
