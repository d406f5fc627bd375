"""What a thread has cost in tokens."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from langchain_core.messages import AIMessage
from pydantic import BaseModel

from deerflow.errors import ConfigError, NotFoundError
from deerflow.gateway.consumption import Consumption, added
from deerflow.gateway.deps import Gateway, Open, ThreadRead
from deerflow.middlewares.token_usage import MODEL
from deerflow.runtime.lookup import MOST
from deerflow.storage.protocol import ThreadRow

router = APIRouter(tags=["token usage"])


class ContextUsage(BaseModel):
    """How full the model's window was at the last answer; `percentage` is 0 to 100."""

    token_count: int
    max_context_tokens: int
    percentage: float


class TokenUsage(BaseModel):
    """Sums over the thread's runs; `context_usage` is null when the window is unknown."""

    thread_id: str
    total_tokens: int
    total_input_tokens: int
    total_output_tokens: int
    total_runs: int
    by_model: dict[str, dict[str, Any]]
    by_caller: dict[str, int]
    context_usage: ContextUsage | None


@router.get("/threads/{thread_id}/token-usage", summary="Tokens of a thread")
async def get(thread: ThreadRead, gate: Open) -> TokenUsage:
    """By model and by caller; a run counts when it has ended."""
    runs = await gate.runtime.harness.storage.threads.runs(thread.thread_key, limit=MOST)
    total = Consumption()
    for run in runs:
        added(total, run.usage)
    return TokenUsage(
        thread_id=thread.thread_id,
        total_tokens=total.input + total.output,
        total_input_tokens=total.input,
        total_output_tokens=total.output,
        total_runs=len(runs),
        by_model=total.by_model,
        by_caller=total.by_caller,
        context_usage=await _context(gate, thread),
    )


async def _context(gate: Gateway, thread: ThreadRow) -> ContextUsage | None:
    """Of the newest answer whose provider told its tokens."""
    snapshot = await gate.runtime.histories.state(thread)
    messages: list[Any] = snapshot.values["messages"] if snapshot is not None else []
    told = (m for m in reversed(messages) if isinstance(m, AIMessage) and m.usage_metadata)
    last = next(told, None)
    if last is None or last.usage_metadata is None:
        return None
    catalog = gate.runtime.harness.catalog
    try:
        window = catalog.spec(str(last.response_metadata.get(MODEL))).context_window
    except (NotFoundError, ConfigError):  # no longer configured
        return None
    if not window:
        return None
    count = last.usage_metadata["total_tokens"]
    return ContextUsage(
        token_count=count,
        max_context_tokens=window,
        percentage=round(min(100.0, 100 * count / window), 1),
    )
