"""What belongs to the user of a client: memory, approvals, goals, and the models to ask."""

from __future__ import annotations

import time
from typing import Any

from deerflow.client.conversations import Desk
from deerflow.errors import UsageError
from deerflow.guardrails.approvals import MOST, Decided, decide
from deerflow.memory.protocol import (
    Change,
    Fact,
    FlushReport,
    ImportReport,
    MemoryDocument,
    MemoryManager,
)
from deerflow.models.protocol import ModelSpec
from deerflow.runtime.request import RunRequest, RunResult
from deerflow.storage.protocol import ApprovalRow, ApprovalStatus, Decision


class UserMemory:
    """What is remembered of the user. Every method raises UsageError when memory is off."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def show(self) -> MemoryDocument:
        """Everything. Raises StorageError when it is damaged."""
        return await self._manager.load(self._desk.user_id)

    async def search(self, query: str = "", *, limit: int = 15) -> list[Fact]:
        """Facts that hold, most relevant first; without a query the newest."""
        return await self._manager.search(self._desk.user_id, query, limit=limit)

    async def add(
        self, content: str, *, category: str = "context", confidence: float = 1.0
    ) -> Fact:
        """Remember a fact. Raises UsageError for a bad one."""
        return await self._manager.add(
            self._desk.user_id, content, category=category, confidence=confidence
        )

    async def change(self, fact_id: str, **fields: Any) -> Fact:
        """Change a fact; the old one is kept as superseded. Raises NotFoundError, UsageError."""
        return await self._manager.change(self._desk.user_id, fact_id, **fields)

    async def forget(self, fact_id: str) -> Fact:
        """Remove a fact. Raises NotFoundError."""
        return await self._manager.forget(self._desk.user_id, fact_id)

    async def undo(self) -> Change | None:
        """Take the newest change back; None when there is none."""
        return await self._manager.undo(self._desk.user_id)

    async def export(self) -> dict[str, Any]:
        """Everything in the shape of a memory.json."""
        return await self._manager.export(self._desk.user_id)

    async def take_in(self, raw: Any) -> ImportReport:
        """Import what `export` gave, or a 2.x memory.json. Raises UsageError."""
        return await self._manager.take_in(self._desk.user_id, raw)

    async def clear(self) -> bool:
        """Forget everything of the user."""
        return await self._manager.clear(self._desk.user_id)

    async def flush(self, *, seconds: float = 30.0) -> FlushReport:
        """Take queued conversations in now, for at most so many seconds."""
        return await self._manager.flush(user_id=self._desk.user_id, seconds=seconds)

    @property
    def _manager(self) -> MemoryManager:
        manager = self._desk.harness.memory
        if manager is None:
            raise UsageError("Memory is off.", cure="Set memory.enabled in config.yaml.")
        return manager


class Pending:
    """Tool calls that wait for the user."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def list(
        self, *, thread_id: str | None = None, status: ApprovalStatus | None = "pending"
    ) -> list[ApprovalRow]:
        """Approvals, oldest first; `status=None` lists all. Raises NotFoundError (the thread)."""
        key = None if thread_id is None else (await self._desk.thread(thread_id)).thread_key
        approvals = self._desk.harness.storage.approvals
        return await approvals.list(self._desk.user_id, thread_key=key, status=status, limit=MOST)

    async def approve(self, approval_id: str, *, args: dict[str, Any] | None = None) -> Decided:
        """Let a call run, perhaps with other arguments; `client.resume` then goes on.

        Raises:
            NotFoundError: unknown.
            UsageError: arguments that cannot be kept.
        """
        return await self._decide(
            approval_id, Decision("approved", self._desk.user_id, time.time(), args)
        )

    async def reject(self, approval_id: str, *, reason: str = "") -> Decided:
        """Refuse a call. Raises NotFoundError, UsageError."""
        decision = Decision("rejected", self._desk.user_id, time.time(), note=reason)
        return await self._decide(approval_id, decision)

    async def _decide(self, approval_id: str, decision: Decision) -> Decided:
        storage = self._desk.harness.storage
        return await decide(storage, self._desk.user_id, approval_id, decision)


class Goals:
    """What threads pursue."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def get(self, thread_id: str) -> dict[str, Any] | None:
        """The thread's goal, see `agent.state.GoalState`; None without one.

        Raises:
            NotFoundError: no such thread.
        """
        row = await self._desk.thread(thread_id)
        harness = self._desk.harness
        graph = await harness.agents.graph(harness.catalog.default)
        state = await graph.aget_state({"configurable": {"thread_id": row.thread_key}})
        goal: Any = state.values.get("goal")
        return dict(goal) if goal else None

    async def set(self, thread_id: str, objective: str) -> RunResult:
        """Give a thread, new or old, a goal that its next runs pursue. Raises UsageError."""
        if not objective.strip():
            raise UsageError("The goal is empty.", cure="Say what is to be reached.")
        return await self._command(thread_id, objective)

    async def clear(self, thread_id: str) -> RunResult:
        """Pursue nothing any more. Raises NotFoundError."""
        await self._desk.thread(thread_id)
        return await self._command(thread_id, "clear")

    async def _command(self, thread_id: str, words: str) -> RunResult:
        request = RunRequest(f"/goal {words}", thread_id=thread_id, user_id=self._desk.user_id)
        return await (await self._desk.harness.runs.start(request)).result()


class Models:
    """The configured models."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def list(self) -> list[ModelSpec]:
        """Facts of each, the default first."""
        catalog = self._desk.harness.catalog
        return [catalog.spec(name) for name in catalog.names()]
