"""The workers of a batch: each claims an item, runs it as a child, and writes how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import set_config_context
from langgraph.errors import GraphInterrupt
from langgraph.types import Interrupt

from deerflow.agent.context import RunContext
from deerflow.middlewares.token_usage import add_child
from deerflow.storage.protocol import BatchItem, BatchRow, ItemStatus
from deerflow.subagents.batch_items import loaded, rendered
from deerflow.subagents.batch_results import Counts, Record, pages
from deerflow.subagents.roster import SubagentSpec
from deerflow.subagents.runner import ChildResult
from deerflow.tools.schema import Runtime

T = TypeVar("T")

ATTEMPTS = 2
"""Attempts at an item that fails: one retry."""
ALONE = 2
"""Claims lost with the process from which on an item runs alone: its neighbours of both times may
be innocent."""
LOST = 3
"""Claims lost with the process at which an item counts as failed."""
REPORTS = 20
"""Progress events of a batch, beside the last."""


class Executor(Protocol):
    """What runs a child; `SubagentExecutor` does."""

    async def run(
        self,
        spec: SubagentSpec,
        prompt: str,
        run: RunContext,
        *,
        name: str,
        max_turns: int = 0,
        bounded: bool = True,
    ) -> ChildResult:
        """Run one child to its end."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """What all items are run with; stored as the batch's settings.

    Attributes:
        template: prompt with placeholders.
        kind: name of the kind of child.
        day: when the batch was made, ISO 8601: an item's requests name it on every later day.
        file: name of the results, without folder and ending.
        max_turns: of a child, 0 for as many as its kind allows.
    """

    template: str
    kind: str
    day: str
    file: str
    max_turns: int = 0


@dataclass(slots=True)
class Tally:
    """How far a batch is, told in at most REPORTS events and a last one."""

    run: RunContext
    row: BatchRow
    tool_call_id: str
    counts: Counts = field(default_factory=dict[ItemStatus, int])
    _told: dict[str, Any] = field(default_factory=dict[str, Any])
    _step: int = 0

    def begin(self, counts: Counts) -> None:
        """Start from what the database has."""
        self.counts = {status: counts.get(status, 0) for status in ("done", "failed")}
        self._step = self._reached

    def note(self, status: ItemStatus) -> None:
        """An item has ended, or waits."""
        self.counts[status] = self.counts.get(status, 0) + 1
        if self._reached > self._step:
            self._step = self._reached
            self.tell()

    def tell(self) -> None:
        """Emit what there is, unless it was told."""
        shown = {key: self.counts.get(key, 0) for key in ("done", "failed", "waiting")}
        if shown != self._told:
            self._told = shown
            head = {"batch_id": self.row.batch_id, "tool_call_id": self.tool_call_id}
            self.run.emit("batch_progress", {**head, **shown, "total": self.row.total})

    @property
    def _reached(self) -> int:
        return sum(self.counts.values()) * REPORTS // self.row.total


class Team:
    """Tasks whose graphs are not nested in the one that runs us; all of them end with it.

    Nested ones would write checkpoints, hundreds of them in the one namespace of our node; an item
    goes on from the journal instead. Tracing goes on as it is.

    Args:
        config: of the call.
    """

    def __init__(self, config: RunnableConfig) -> None:
        kept = {key: config.get(key) for key in ("callbacks", "tags", "metadata")}
        config = cast("RunnableConfig", {key: value for key, value in kept.items() if value})
        with set_config_context(config) as context:
            self._context = context.copy()
        self._tasks: list[asyncio.Task[Any]] = []

    def hire(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task."""
        task = asyncio.create_task(work, context=self._context.copy())
        self._tasks.append(task)
        return task

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class BatchJob:
    """One entry into a batch: from where it stands to where nothing is left to do.

    Args:
        executor: runs the children, under the user's and the process's bounds.
        spec: kind of child.
        row: the batch.
        runtime: of the call.
    """

    def __init__(
        self,
        executor: Executor,
        spec: SubagentSpec,
        row: BatchRow,
        runtime: Runtime,
    ) -> None:
        self.row = row
        self.run = cast("RunContext", runtime.context)
        self.tally = Tally(self.run, row, runtime.tool_call_id or "")
        self._runtime = runtime
        self._executor = executor
        self._spec = spec
        self._plan = Plan(**row.settings)
        self._batches = self.run.storage.batches
        self._written: list[Awaitable[None]] = []
        self.interrupts: list[Interrupt] = []
        """What items that wait for a human have asked."""

    async def work(self, concurrency: int) -> None:
        """Run what is not done, so many items at once.

        Raises:
            asyncio.CancelledError: the run was stopped; what was under way is pending again.
            StorageError: the database failed, or the thread is gone.
        """
        await self._take_up()
        async with Team(self._runtime.config) as team:
            item = await team.hire(self._suspects())
            if item is not None:
                workers = [team.hire(self._worker(item))]
                workers += [team.hire(self._worker()) for _ in range(1, concurrency)]
                await asyncio.gather(*workers)

    async def _take_up(self) -> None:
        """Reopen what was under way or waited, and count what finished items have used."""
        opened = await self._batches.reopen(self.row.batch_id)
        if self.row.run_id == self.run.run_id and (opened or self.run.resumed):
            async for page in pages(self.run, self.row):
                for item in page:
                    if item.status in ("done", "failed"):
                        add_child(self.run, self._name(item), Record.of(item).usage)
        self.tally.begin(await self._batches.counts(self.row.batch_id))

    async def _suspects(self) -> BatchItem | None:
        """Run what may have ended the process, one at a time; the first item that has not."""
        item = await self._claim()
        while item is not None and Record.of(item).lost(item) >= ALONE:
            await self._one(item)
            item = await self._claim()
        return item

    async def _worker(self, item: BatchItem | None = None) -> None:
        item = item or await self._claim()
        while item is not None:
            await self._one(item)
            item = await self._claim()

    async def _claim(self) -> BatchItem | None:
        """The next item; what was settled before is durable when it is there."""
        settled, self._written = self._written, []
        found = await self._batches.claim(self.row.batch_id, 1)
        for ticket in settled:
            await ticket
        return found[0] if found else None

    async def _one(self, item: BatchItem) -> None:
        record = Record.of(item)
        if record.lost(item) >= LOST:
            self._settle(item, "failed", replace(record, error=_killer(record.lost(item))))
            return
        try:
            child = await self._attempt(item)
        except GraphInterrupt as pause:
            self.interrupts += pause.args[0]
            self._settle(item, "waiting", record.returned())
            return
        except asyncio.CancelledError:
            self._settle(item, "pending", record.returned())
            raise
        add_child(self.run, self._name(item), None)  # it was counted call by call
        record = record.after(child, self._usage(child))
        if child.status == "completed":
            self._settle(item, "done", record)
        elif record.failures < ATTEMPTS:
            self._settle(item, "pending", record)
        else:
            self._settle(item, "failed", record)

    async def _attempt(self, item: BatchItem) -> ChildResult:
        """One child. What an earlier attempt has paid for or done comes from the journal."""
        plan = self._plan
        place = replace(self.run, batch_day=plan.day, resumed=item.attempts > 1)
        prompt = rendered(plan.template, loaded(item.item))
        return await self._executor.run(
            self._spec,
            prompt,
            place,
            name=self._name(item),
            max_turns=plan.max_turns,
            bounded=False,
        )

    def _usage(self, child: ChildResult) -> dict[str, Any]:
        """What a child used as `add_child` takes it."""
        used = child.usage
        if not used or "entries" in used:
            return {"entries": used.get("entries", [])}
        model = self._spec.model or self.run.model_name
        return {"entries": [{"model": model, "caller": self._spec.name, **used}]}

    def _settle(self, item: BatchItem, status: ItemStatus, record: Record) -> None:
        ticket = self._batches.settle(item.batch_id, item.index, status, record.dumped())
        self._written.append(ticket)
        if status != "pending":
            self.tally.note(status)

    def _name(self, item: BatchItem) -> str:
        """Namespace of the child: the same whenever the item is tried."""
        return f"batch-{item.batch_id[:12]}.{item.index}"


def _killer(times: int) -> dict[str, Any]:
    return {
        "code": "process_died",
        "message": f"The process ended {times} times while this item was under way.",
        "cure": "Try the item by itself to see why.",
    }
