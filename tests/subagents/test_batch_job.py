"""The workers of a batch: bounds, fairness, retries, and claims that ended with the process."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from langgraph.errors import GraphInterrupt
from langgraph.types import Interrupt

from deerflow.agent.context import RunContext
from deerflow.config.schema import SubagentsConfig
from deerflow.errors import ThreadGoneError
from deerflow.middlewares.token_usage import usage_of
from deerflow.storage.inmemory import InMemoryStorage
from deerflow.storage.inmemory_work import MemoryBatches
from deerflow.storage.protocol import BatchRow
from deerflow.subagents.batch_job import ATTEMPTS, LOST, REPORTS, BatchJob
from deerflow.subagents.batch_results import Record
from deerflow.subagents.roster import GENERAL, SubagentSpec
from deerflow.subagents.runner import ChildResult, SubagentExecutor
from fakes.rows import events, request, run_context, tool

DONE = ChildResult("completed", "fine", turns=1)
FAILED = ChildResult("failed", "", error={"code": "x", "message": "It broke.", "cure": ""})
DAY = "2026-11-30"


@dataclass
class Children:
    """An executor whose children do what `act` says; the default is done at once.

    Attributes:
        act: given the item's prompt; its result is the child's.
        seen: (prompt, its context) in order of start.
        now, most: children at work, and the most of them at once.
    """

    act: Callable[[str], Awaitable[ChildResult]] | None = None
    seen: list[tuple[str, RunContext]] = field(default_factory=list[tuple[str, RunContext]])
    now: int = 0
    most: int = 0

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
        assert not bounded, "the batch has a bound of its own"
        self.seen.append((prompt, run.child(name, run.model_name, max_turns)))
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(0)
            return await self.act(prompt) if self.act else DONE
        finally:
            self.now -= 1

    @property
    def prompts(self) -> list[str]:
        return [prompt for prompt, _ in self.seen]


@dataclass
class Bench:
    """A batch in memory."""

    run: RunContext
    row: BatchRow

    def job(self, executor: Any, spec: SubagentSpec = GENERAL) -> BatchJob:
        return BatchJob(executor, spec, self.row, request(tool("task_batch"), self.run).runtime)

    async def statuses(self) -> list[str]:
        return [item.status for item in await self.run.storage.batches.items(self.row.batch_id)]

    async def records(self) -> list[Record]:
        return [Record.of(i) for i in await self.run.storage.batches.items(self.row.batch_id)]

    async def die(self, *expected: int) -> None:
        """A process claims what is free, or as much as named, and dies."""
        storage = self.run.storage
        assert isinstance(storage, InMemoryStorage)
        other = MemoryBatches(storage.batches._tables, "0:0:gone")  # type: ignore[attr-defined]
        await other.reopen(self.row.batch_id)
        claimed = await other.claim(self.row.batch_id, len(expected))
        assert [item.index for item in claimed] == list(expected)


async def batch(total: int, *, user: str = "ann", storage: Any = None, **facts: Any) -> Bench:
    if storage is not None:
        facts["storage"] = storage
    run = run_context(user_id=user, thread_key=f"key-{user}", **facts)
    settings = {"template": "Do {item}", "kind": "k", "day": DAY, "file": "f", "max_turns": 0}
    row = BatchRow(f"b-{user}", user, run.thread_key, run.run_id, total, 0.0, settings)
    await run.storage.batches.create(row, [f'"{number}"' for number in range(total)])
    return Bench(run, row)


async def test_items_start_in_order_and_so_many_at_once() -> None:
    bench, children = await batch(10), Children()
    await bench.job(children).work(3)
    assert children.prompts == [f"Do {number}" for number in range(10)]
    assert children.most == 3
    assert await bench.statuses() == ["done"] * 10


async def test_each_child_has_its_own_name_the_batchs_day_and_no_resume() -> None:
    bench, children = await batch(3), Children()
    await bench.job(children).work(3)
    contexts = [context for _, context in children.seen]
    assert [context.agent for context in contexts] == [f"batch-b-ann.{n}" for n in range(3)]
    assert {context.batch_day for context in contexts} == {DAY}
    assert not any(context.resumed for context in contexts)
    assert contexts[0].root.scratch is bench.run.scratch


async def test_a_failure_is_tried_once_more_with_what_was_paid_for() -> None:
    fates = {"Do 1": [FAILED, DONE], "Do 2": [FAILED] * 9}

    async def act(prompt: str) -> ChildResult:
        return fates[prompt].pop(0) if prompt in fates else DONE

    bench, children = await batch(4), Children(act)
    await bench.job(children).work(2)
    assert await bench.statuses() == ["done", "done", "failed", "done"]
    assert [children.prompts.count(f"Do {n}") for n in range(4)] == [1, 2, ATTEMPTS, 1]
    resumed = [(prompt, context.resumed) for prompt, context in children.seen]
    assert {(prompt) for prompt, again in resumed if again} == {"Do 1", "Do 2"}
    assert (await bench.records())[2].error == FAILED.error


async def test_a_child_that_was_cut_off_by_its_clock_counts_as_a_failure() -> None:
    async def act(_: str) -> ChildResult:
        return ChildResult("timed_out", "half", "timeout_seconds", error={"message": "late"})

    bench = await batch(1)
    await bench.job(Children(act)).work(4)
    assert await bench.statuses() == ["failed"]
    assert (await bench.records())[0].text == "half"


async def test_an_item_that_kills_the_process_is_given_up_and_its_neighbours_are_not() -> None:
    bench = await batch(4)
    await bench.die(0, 1)
    await bench.die(0, 1)  # in company twice: either may be the culprit
    killer = asyncio.Event()

    async def act(prompt: str) -> ChildResult:
        if prompt == "Do 0":
            killer.set()
            await asyncio.Event().wait()
        return DONE

    children = Children(act)
    work = asyncio.create_task(bench.job(children).work(4))
    await killer.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    assert children.prompts == ["Do 0"], "a suspect runs alone"
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert await bench.statuses() == ["pending"] * 4, "stopped, not dead: that is no claim lost"

    await bench.die(0)
    children = Children()
    await bench.job(children).work(4)
    assert children.prompts == ["Do 1", "Do 2", "Do 3"]
    assert await bench.statuses() == ["failed", "done", "done", "done"]
    error = (await bench.records())[0].error
    assert error is not None
    assert error["code"] == "process_died"
    assert f"{LOST} times" in error["message"]


async def test_waiting_and_stopping_use_up_no_attempt() -> None:
    bench = await batch(2)
    asks = True

    async def act(prompt: str) -> ChildResult:
        if prompt == "Do 0" and asks:
            raise GraphInterrupt([Interrupt("may I?", id=prompt)])
        return DONE

    for _ in range(LOST + 2):
        job = bench.job(Children(act))
        await job.work(2)
        assert [pause.value for pause in job.interrupts] == ["may I?"]
        assert await bench.statuses() == ["waiting", "done"]
    asks = False
    job = bench.job(Children(act))
    await job.work(2)
    assert (await bench.statuses(), job.interrupts) == (["done", "done"], [])


async def test_a_stop_ends_all_children_and_the_batch_goes_on_later() -> None:
    started = asyncio.Event()
    left: list[str] = []

    async def act(prompt: str) -> ChildResult:
        if prompt == "Do 0":
            return DONE
        try:
            if prompt == "Do 3":
                started.set()
            await asyncio.Event().wait()
        finally:
            left.append(prompt)
        raise AssertionError

    bench, children = await batch(8), Children(act)
    work = asyncio.create_task(bench.job(children).work(3))
    await started.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert sorted(left) == ["Do 1", "Do 2", "Do 3"]
    assert await bench.statuses() == ["done", *["pending"] * 7]
    children = Children()
    await bench.job(children).work(3)
    assert children.prompts == [f"Do {number}" for number in range(1, 8)]
    assert [again.resumed for _, again in children.seen] == [True] * 3 + [False] * 4


async def test_a_deleted_thread_ends_the_work() -> None:
    async def act(prompt: str) -> ChildResult:
        if prompt == "Do 1":
            raise ThreadGoneError("gone")
        await asyncio.Event().wait()
        raise AssertionError

    bench, children = await batch(8), Children(act)
    with pytest.raises(ThreadGoneError):
        await bench.job(children).work(3)
    assert children.now == 0


async def test_progress_is_told_a_bounded_number_of_times() -> None:
    bench = await batch(1000)
    await bench.job(Children()).work(4)
    told = await events(bench.run, "batch_progress")
    assert len(told) == REPORTS
    assert told[0] == {
        "batch_id": "b-ann",
        "tool_call_id": "c-task_batch",
        "done": 50,
        "failed": 0,
        "waiting": 0,
        "total": 1000,
    }
    assert told[-1]["done"] == 1000


async def test_what_finished_items_used_is_counted_once_after_a_resume() -> None:
    tokens = {"calls": 2, "input": 10, "output": 5, "cost": {"EUR": 0.5}}
    used = {"entries": [{"model": "m", "caller": "general-purpose", **tokens}]}

    async def act(prompt: str) -> ChildResult:
        if prompt == "Do 2":
            raise asyncio.CancelledError
        return ChildResult("completed", "fine", usage={"total": {}, **used})

    bench = await batch(4)
    with pytest.raises(asyncio.CancelledError):
        await bench.job(Children(act)).work(1)
    assert usage_of(bench.run)["total"]["calls"] == 0, "the executor counts call by call"
    assert (await bench.records())[0].usage == used
    later = Bench(run_context(**_same(bench.run), resumed=True), bench.row)
    for _ in range(2):  # entered twice in one process
        with pytest.raises(asyncio.CancelledError):
            await later.job(Children(act)).work(1)
    total = usage_of(later.run)["total"]
    assert (total["calls"], total["input"], total["cost"]) == (4, 20, {"EUR": 1.0})


async def test_batches_of_two_users_take_turns() -> None:
    storage = InMemoryStorage()
    order: list[str] = []
    begun = asyncio.Event()

    async def no_graph(spec: SubagentSpec, run: RunContext) -> Any:
        order.append(run.user_id)
        begun.set()
        await asyncio.sleep(0)
        return Silent()

    executor = SubagentExecutor(SubagentsConfig.model_validate({"global": 2}), no_graph)
    ann, bob = await batch(20, storage=storage), await batch(20, user="bob", storage=storage)
    first = asyncio.create_task(ann.job(executor).work(4))
    await begun.wait()
    await asyncio.gather(first, bob.job(executor).work(4))
    assert (order.count("ann"), order.count("bob")) == (2 * 20, 2 * 20)
    both = order[order.index("bob") : len(order) - order[::-1].index("ann")]
    assert len(both) > 40, "they run side by side"
    longest = max(len(list(turns)) for _, turns in itertools.groupby(both))
    assert longest <= 4, "nobody waits for the whole batch of another"
    assert 0.4 < both.count("bob") / len(both) < 0.6


class Silent:
    """A graph that ends without an answer."""

    nodes = ()

    async def astream(self, *_: Any, **__: Any) -> Any:
        for _ in range(3):
            await asyncio.sleep(0)
        yield {"messages": []}


def _same(run: RunContext) -> dict[str, Any]:
    return {
        "user_id": run.user_id,
        "thread_key": run.thread_key,
        "storage": run.storage,
    }
