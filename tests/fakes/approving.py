"""A harness whose policy asks a human before it deletes, with tools that leave traces."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime

import deerflow
import fakes
from deerflow.guardrails import approvals
from deerflow.guardrails.approvals import Decided
from deerflow.runtime.request import RunRequest, RunResult
from deerflow.storage.protocol import ApprovalRow, Decision
from deerflow.wiring.harness import Harness, open_harness
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


async def approve(
    harness: Harness, row: ApprovalRow, args: Any = None, *, at: float | None = None
) -> Decided:
    return await approvals.decide(
        harness.storage,
        "local",
        row.approval_id,
        Decision("approved", "local", at or time.time(), args),
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


async def until_asked(harness: Harness, thread_id: str = "t") -> list[ApprovalRow]:
    """Wait until a call of the thread waits for a human."""
    thread = await harness.storage.threads.get("local", thread_id)
    assert thread is not None
    async for event in harness.storage.events.follow(thread.thread_key):
        if event.type == "approval_requested":
            break
    return await rows(harness)


class KillingDesk(Desk):
    """Leaves its effects in a file, and kills its process (-9) around the first one.

    Args:
        home: where the file `effects` lies.
        moment: "before" or "after" the effect, else never.
    """

    def __init__(self, home: Path, moment: str = "") -> None:
        super().__init__()
        self._file = home / "effects"
        self._moment = moment

    async def _act(self, what: str) -> str:
        if self._moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        with self._file.open("a") as file:
            file.write(f"{what}\n")
        if self._moment == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return f"did {what}"

    @property
    def effects(self) -> list[str]:
        """What happened, by all processes."""
        return self._file.read_text().splitlines() if self._file.exists() else []


KILLED = [
    {"calls": [call("delete", what="a")]},
    {"text": "Done."},
]


async def _approve_and_die(home: Path, moment: str) -> None:
    async with approving_harness(KILLED, home, KillingDesk(home, moment)) as harness:
        for row in await rows(harness):
            await approve(harness, row)
        if moment == "decided":
            os.kill(os.getpid(), signal.SIGKILL)
        await run(harness)


def approve_and_die(home: str, moment: str) -> None:
    """A whole process: approves what waits, goes on, and is killed at the moment."""
    asyncio.run(_approve_and_die(Path(home), moment))


def start_killed(home: Path, moment: str) -> int:
    """Run `approve_and_die` in a process of its own; its exit code."""
    folders = [str(Path(package.__path__[0]).parent) for package in (fakes, deerflow)]
    code = (
        f"import sys; sys.path[:0] = {folders}\n"
        f"from {__name__} import approve_and_die\n"
        f"approve_and_die({str(home)!r}, {moment!r})"
    )
    return subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode
