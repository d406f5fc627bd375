"""Plan mode through a whole run: every row is on, the plan is worked off and survives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deerflow.runtime.request import RunRequest, RunResult
from deerflow.wiring.harness import Harness
from fakes.harness import scripted_harness

PLAN_RULE = "Plan mode: before you act"


def plans(*states: str) -> dict[str, Any]:
    todos = [{"content": f"step {n}", "status": state} for n, state in enumerate(states, 1)]
    return {"calls": [{"name": "write_todos", "args": {"todos": todos}}]}


def calculates(number: int) -> dict[str, Any]:
    return {"calls": [{"name": "calculator", "args": {"expression": f"{number}+1"}}]}


async def finish(harness: Harness, **request: Any) -> RunResult:
    request = {"thread_id": "t", **request}
    return await (await harness.runs.start(RunRequest(**request))).result()


async def todos_of(harness: Harness) -> list[str]:
    thread = await harness.storage.threads.get("local", "t")
    assert thread is not None
    graph = await harness.agents.graph("scripted")
    state = await graph.aget_state({"configurable": {"thread_id": thread.thread_key}})
    return [todo["status"] for todo in state.values["todos"]]


def requests(harness: Harness) -> list[Any]:
    model: Any = harness.catalog.get("scripted")
    return [request.messages for request in model.inner.requests]


async def test_a_plan_is_written_worked_off_and_told(tmp_path: Path) -> None:
    script = [
        plans("in_progress", "pending"),
        calculates(1),
        plans("completed", "in_progress"),
        calculates(2),
        plans("completed", "completed"),
        {"text": "Both steps are done."},
    ]
    async with scripted_harness(script, tmp_path) as harness:
        result = await finish(harness, task="Do both", plan=True)
        thread = await harness.storage.threads.get("local", "t")
        assert thread is not None
        events = await harness.storage.events.read(thread.thread_key)
        assert await todos_of(harness) == ["completed", "completed"]
        assert all(any(PLAN_RULE in m.text for m in sent) for sent in requests(harness))
    assert result.text == "Both steps are done."
    told = [[t["status"] for t in e.payload["todos"]] for e in events if e.type == "todos"]
    assert told == [
        ["in_progress", "pending"], ["completed", "in_progress"], ["completed", "completed"]
    ]  # fmt: skip


async def test_an_open_plan_survives_the_run_and_is_shown_to_the_next(tmp_path: Path) -> None:
    script = [plans("in_progress", "pending"), {"text": "Later."}, {"text": "Really later."}]
    script += [{"text": "A word in between."}] * 12
    async with scripted_harness(script, tmp_path) as harness:
        await finish(harness, task="Do both", plan=True)
        for number in range(12):
            await finish(harness, task=f"and {number}?")
        assert await todos_of(harness) == ["in_progress", "pending"]
        last = requests(harness)[-1]
    assert "Your plan so far" in last[-1].text
    assert "step 2" in last[-1].text


async def test_a_plan_survives_a_stop_and_the_resume(tmp_path: Path) -> None:
    slow = {"text": "word " * 50, "gap_ms": 50}
    script = [plans("in_progress"), slow, plans("completed"), {"text": "Done."}]
    async with scripted_harness(script, tmp_path) as harness:
        handle = await harness.runs.start(RunRequest(task="Do it", thread_id="t", plan=True))
        async for delta in handle.deltas():
            if delta.text.startswith("word"):
                break
        handle.cancel()
        assert (await handle.result()).status == "cancelled"
        assert await todos_of(harness) == ["in_progress"]
        result = await finish(harness, resume=True)
        assert await todos_of(harness) == ["completed"]
        assert any(PLAN_RULE in m.text for m in requests(harness)[-1])
    assert result.text == "Done."
