"""What a stopped run leaves is closed by the next one: calls answered, turns counted, text void."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from langchain_core.tools import tool

from deerflow.runtime.request import RunRequest
from deerflow.runtime.runs import RunHandle
from deerflow.wiring.harness import Harness
from fakes.harness import scripted_harness


async def history(harness: Harness, thread_id: str) -> list[Any]:
    thread = await harness.storage.threads.get("local", thread_id)
    assert thread is not None
    graph = await harness.agents.graph("scripted")
    state = await graph.aget_state({"configurable": {"thread_id": thread.thread_key}})
    return list(state.values["messages"])


async def until(handle: RunHandle, type: str, number: int = 1) -> None:
    async for event in handle.events():
        number -= event.type == type
        if number == 0:
            return


def call(name: str, **args: Any) -> dict[str, Any]:
    return {"name": name, "args": args}


def gated(gate: asyncio.Event) -> Any:
    @tool
    async def wait() -> str:
        """Wait."""
        await gate.wait()
        return "waited"

    return wait


async def test_a_new_message_keeps_the_results_of_a_stopped_turn(tmp_path: Path) -> None:
    both = [call("wait"), call("calculator", expression="6*7")]
    script = [{"calls": both}, {"text": "Fine."}]
    async with scripted_harness(script, tmp_path, tools=[gated(asyncio.Event())]) as harness:
        handle = await harness.runs.start(RunRequest(task="Do both", thread_id="t"))
        await until(handle, "tool_completed")
        handle.cancel()
        assert (await handle.result()).status == "cancelled"
        again = await harness.runs.start(RunRequest(task="Go on", thread_id="t"))
        assert (await again.result()).text == "Fine."
        messages = await history(harness, "t")
    assert [m.type for m in messages] == ["human", "ai", "tool", "tool", "human", "ai"]
    assert [m.tool_call_id for m in messages[2:4]] == [c["id"] for c in messages[1].tool_calls]
    assert "Outcome unknown" in messages[2].content
    assert messages[3].content == "42"


async def test_turns_of_before_the_stop_count(tmp_path: Path) -> None:
    gate = asyncio.Event()
    turns = [{"calls": [call("calculator", expression="1+1")]}, {"calls": [call("wait")]}]
    async with scripted_harness(turns, tmp_path, tools=[gated(gate)]) as harness:
        handle = await harness.runs.start(RunRequest(task="Go", thread_id="t", max_turns=2))
        await until(handle, "tool_started", 2)
        handle.cancel()
        await handle.result()
        resumed = await harness.runs.start(RunRequest(thread_id="t", resume=True))
        outcome = (await resumed.result()).outcome
    assert outcome is not None
    assert (outcome.kind, outcome.detail["used"]) == ("limit_reached", 2)


async def test_text_of_a_cut_reply_is_void_after_a_resume(tmp_path: Path) -> None:
    script = [{"text": "one two three four", "gap_ms": 200}, {"text": "Whole."}]
    async with scripted_harness(script, tmp_path) as harness:
        handle = await harness.runs.start(RunRequest(task="Count", thread_id="t"))
        async for delta in handle.deltas():
            cut = delta.message_id
            break
        handle.cancel()
        await handle.result()
        assert await harness.storage.deltas.read(handle.run_id, cut)
        resumed = await harness.runs.start(RunRequest(thread_id="t", resume=True))
        assert (await resumed.result()).text == "Whole."
        thread = await harness.storage.threads.get("local", "t")
        assert thread is not None
        events = await harness.storage.events.read(thread.thread_key)
        assert await harness.storage.deltas.read(handle.run_id, cut) == []
    voided = [e.payload["message_id"] for e in events if e.type == "model_retry"]
    assert voided == [cut]
    assert [e.payload["usage"]["total"]["calls"] for e in events if e.type == "run_ended"][-1] == 1
