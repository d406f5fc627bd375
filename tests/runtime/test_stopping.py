"""Stops through any process: nothing is at work afterwards, and it stays so. A reader is nobody."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import StructuredTool

from deerflow.events import Event
from deerflow.runtime.stopping import ended, roll_back
from deerflow.runtime.worker import Worker
from deerflow.storage.owner import this_owner
from deerflow.subagents.answers import STOPPED
from fakes.children import model, says, task
from fakes.gates import Gate
from fakes.opened import USER, opened_runtime
from fakes.sandboxes import SMALL, until

BEAT = "(while true; do date +%s%N > beat-{n}.new; mv beat-{n}.new beat-{n}; sleep 0.05; done) & "
STORIES: dict[str, Any] = {
    "lead": [
        says("", task("script:child1 work", kind="bash"), task("script:child2 work", kind="bash")),
        says("Not reached."),
    ],
    "next": [says("Next.")],
    **{
        f"child{n}": [
            says("", {"name": "bash", "args": {"command": BEAT.format(n=n) + "sleep 30"}}),
            says("Not reached."),
        ]
        for n in (1, 2)
    },
}
FILE: dict[str, Any] = {"backend": "sqlite"}


def on(home: Path, **more: Any) -> Any:
    return opened_runtime(
        [],
        home,
        models=[model(STORIES)],
        database=FILE,
        sandbox={"use": "local", "limits": SMALL},
        **more,
    )


async def test_p05_a_stop_from_another_process_ends_children_for_good(tmp_path: Path) -> None:
    home = tmp_path / "private"
    home.mkdir(mode=0o700)
    async with on(home) as worker, on(home, execute=False) as api:
        provider = worker.runtime.harness.provider
        if (report := await provider.probe()).level == "none":
            pytest.skip("; ".join(report.reasons))
        run = await worker.submit("script:lead go")
        folder = worker.parts.folders(USER, run.thread_key).workspace
        beats = [folder / f"beat-{n}" for n in (1, 2)]
        assert await until(lambda: all(beat.exists() for beat in beats), seconds=30)
        begun = time.monotonic()
        stopped = await api.runtime.submissions.cancel(USER, "t", run.run_id, wait=True)
        assert stopped.status == "cancelled"
        assert time.monotonic() - begun < 4  # 2 s, and room for a busy machine
        last = [beat.read_text() for beat in beats]
        moved = await until(lambda: [beat.read_text() for beat in beats] != last, seconds=1)
        assert not moved, "a child's process outlived the stop"
        events = await worker.log()
        calls = {e.payload["task_id"] for e in events if e.type == "task_started"}
        assert {e.payload["task_id"] for e in events if e.type == "task_cancelled"} == calls
        assert len(calls) == 2
    async with on(home) as again:
        assert (await again.finish("script:next go on")).status == "success"
        state = await again.runtime.histories.state(await again.thread())
        assert state is not None
        results = [m for m in state.values["messages"] if m.type == "tool"]
        assert {m.tool_call_id for m in results} == calls
        assert {m.text for m in results} == {STOPPED}
        assert {m.additional_kwargs["subagent_status"] for m in results} == {"cancelled"}
        log = await again.log()
        newest = {e.payload["task_id"]: e.type for e in log if e.type.startswith("task_")}
        assert set(newest.values()) == {"task_cancelled"}


async def test_p06_a_reader_that_leaves_ends_nothing_and_misses_nothing(tmp_path: Path) -> None:
    gate, entered = asyncio.Event(), asyncio.Event()

    async def hold() -> str:
        """Wait."""
        entered.set()
        await gate.wait()
        return "held"

    tools = [StructuredTool.from_function(coroutine=hold)]
    script = [*[{"calls": [{"name": "hold", "args": {}}]}] * 4, {"text": "all told"}]
    async with opened_runtime(script, tmp_path, tools=tools, database=FILE) as here:
        run = await here.submit("1")
        await entered.wait()
        seen: list[Event] = []
        async for event in here.storage.events.follow(run.thread_key):
            seen.append(event)
            if len(seen) == 5:
                break  # the tab is closed
        gate.set()
        await here.runtime.submissions.wait(run.thread_key, run.run_id)
    async with opened_runtime(
        script, tmp_path, tools=tools, database=FILE
    ) as here:  # nothing is in memory
        async for event in here.storage.events.follow(run.thread_key, after=seen[-1].seq):
            seen.append(event)
            if event.type == "run_ended":
                break
        assert [event.seq for event in seen] == list(range(1, len(seen) + 1))
        assert len(seen) > 20
        assert (await here.said())[-1] == "all told"


async def test_taking_a_run_back_twice_is_taking_it_back_once(tmp_path: Path) -> None:
    async with opened_runtime([{"text": "a"}, {"text": "b"}], tmp_path, database=FILE) as here:
        await here.finish("1")
        run = await here.finish("2")
        for _ in range(2):
            await roll_back(here.parts, run)
        assert await here.said() == ["1", "a"]
        assert [r.run_id for r in await here.runtime.submissions.runs(USER, "t")] != [run.run_id]


async def test_a_run_is_taken_back_when_its_worker_died_before_it_could(tmp_path: Path) -> None:
    gate = Gate()
    more: dict[str, Any] = {"tools": [gate.tool()], "database": FILE}
    script = [{"text": "a"}, {"calls": [{"name": "hold"}]}, {"text": "c"}]
    async with opened_runtime(script[:1], tmp_path, **more) as here:
        await here.finish("1")
    async with opened_runtime(script[1:2], tmp_path, execute=False, **more) as here:
        run, queue = await here.submit("2"), here.storage.queue
        await here.storage.workers.register("w-dies", this_owner(), seconds=30)
        dies = Worker(here.parts, "w-dies")  # it ends the run, and that is the last it does
        task = asyncio.create_task(dies.execute(run.run_id))
        await gate.reached(1)
        later = await here.submit("3", options={"strategy": "rollback"})
        await dies.look()
        assert await task is None, "the next run began on what is to be taken back"
        assert [left.run_id for left in await queue.to_take_back()] == [run.run_id]
    async with opened_runtime(script[2:], tmp_path, **more) as here:
        async with asyncio.timeout(20):
            await here.runtime.submissions.wait(run.thread_key, later.run_id)
        assert await here.storage.threads.run(run.run_id) is None
        assert await here.said() == ["1", "a", "3", "c"]


async def test_waiting_ends_with_the_time_or_the_run(tmp_path: Path) -> None:
    async with opened_runtime([], tmp_path, execute=False) as here:
        run = await here.submit("1")
        thread = await here.thread()
        with pytest.raises(TimeoutError):
            await ended(here.storage, thread, run, seconds=0.01)
        waiting = asyncio.create_task(ended(here.storage, thread, run))
        await here.runtime.submissions.delete_thread(USER, "t")
        assert (await waiting).run_id == run.run_id
