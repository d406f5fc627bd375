"""A harness whose policy asks a human before it deletes, with tools that leave traces."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime

from deerflow.guardrails import approvals
from deerflow.guardrails.approvals import Decided
from deerflow.runtime.request import RunRequest, RunResult
from deerflow.storage.protocol import ApprovalRow, Decision
from deerflow.wiring import Harness, open_harness
from fakes.harness import loaded, scripted_config

ASK: dict[str, Any] = {"tools": ["delete"], "decision": "ask", "reason": "deletes for good"}


def guarded(*rules: dict[str, Any], **config: Any) -> dict[str, Any]:
    """Section `guardrails` with the allowlist."""
    provider = {"use": "allowlist", "config": {"rules": list(rules or (ASK,)), **config}}
    return {"enabled": True, "provider": provider}


def call(name: str, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args}


class Desk:
    """The tools `delete` (an effect) and `look` (a read), and what they did.

    Attributes:
        done: effects and reads in order.
        before: awaited before each effect or read.
    """

    def __init__(self) -> None:
        self.done: list[str] = []
        self.before: Callable[[str], Any] | None = None

    def tools(self) -> list[BaseTool]:
        async def delete(what: str, runtime: ToolRuntime) -> str:
            """Delete something."""
            return await self._act(f"delete {what}")

        async def look(what: str, runtime: ToolRuntime) -> str:
            """Look at something."""
            return await self._act(f"look {what}")

        return [
            StructuredTool.from_function(coroutine=delete),
            StructuredTool.from_function(
                coroutine=look, metadata={"deerflow": {"idempotent": True}}
            ),
        ]

    async def _act(self, what: str) -> str:
        if self.before is not None:
            await self.before(what)
        self.done.append(what)
        return f"did {what}"


@asynccontextmanager
async def approving_harness(
    script: Any, home: Path, desk: Desk, **sections: Any
) -> AsyncGenerator[Harness]:
    """An open harness on SQLite: opened again on the same home, it is a restarted process."""
    sections = {"database": {"backend": "sqlite"}, "guardrails": guarded(), **sections}
    model = {
        "name": "scripted",
        "use": "deerflow.models.scripted:ScriptedChatModel",
        "script": script,
        "follow": "transcript",
    }
    config = scripted_config(script, **{"models": [model], **sections})
    async with open_harness(loaded(config, home), {}, tools=desk.tools()) as harness:
        yield harness


async def run(harness: Harness, task: str = "", thread_id: str = "t") -> RunResult:
    """A run, or without a task the resume of the last one."""
    request = RunRequest(task=task, thread_id=thread_id, resume=not task)
    return await (await harness.runs.start(request)).result()


async def rows(harness: Harness, status: Any = "pending") -> list[ApprovalRow]:
    """Approvals of the local user, in the order of their calls."""
    found = await harness.storage.approvals.list("local", status=status, limit=1000)
    return sorted(found, key=lambda row: (row.created_at, row.namespace, row.index))


async def approve(harness: Harness, row: ApprovalRow, args: Any = None) -> Decided:
    return await approvals.decide(
        harness.storage,
        "local",
        row.approval_id,
        Decision("approved", "local", time.time(), args),
    )


async def reject(harness: Harness, row: ApprovalRow, reason: str = "") -> Decided:
    return await approvals.decide(
        harness.storage,
        "local",
        row.approval_id,
        Decision("rejected", "local", time.time(), note=reason),
    )


async def logged(harness: Harness, *types: str, thread_id: str = "t") -> list[dict[str, Any]]:
    """Payloads of the thread's events of these types."""
    thread = await harness.storage.threads.get("local", thread_id)
    assert thread is not None
    events = await harness.storage.events.read(thread.thread_key)
    return [event.payload for event in events if event.type in types]


async def history(harness: Harness, thread_id: str = "t") -> list[Any]:
    """The thread's messages."""
    thread = await harness.storage.threads.get("local", thread_id)
    assert thread is not None
    graph = await harness.agents.graph("scripted")
    state = await graph.aget_state({"configurable": {"thread_id": thread.thread_key}})
    return list(state.values["messages"])


async def until_pending(harness: Harness, count: int = 1) -> list[ApprovalRow]:
    """Wait until so many calls wait for a human."""
    async with asyncio.timeout(20):
        while len(found := await rows(harness)) < count:
            await asyncio.sleep(0.005)
    return found
