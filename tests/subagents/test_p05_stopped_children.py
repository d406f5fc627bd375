"""P05: a stop ends children and what they run, for good."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from deerflow.runtime.request import RunRequest
from deerflow.subagents.answers import STOPPED
from deerflow.wiring.harness import Harness
from deerflow.wiring.stores import thread_folders
from fakes.children import model, played, says, state_of, task
from fakes.harness import scripted_harness
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


def harness_on(home: Path) -> Any:
    return scripted_harness(
        [],
        home,
        models=[model(STORIES)],
        database={"backend": "sqlite"},
        sandbox={"use": "local", "limits": SMALL},
    )


async def workspace(harness: Harness) -> Path:
    thread = await harness.storage.threads.get("local", "t")
    assert thread is not None
    return thread_folders(harness.loaded)("local", thread.thread_key).workspace


async def test_p05_stopped_children_are_cancelled_for_good(tmp_path: Path) -> None:
    home = tmp_path / "private"
    home.mkdir(mode=0o700)
    async with harness_on(home) as harness:
        if (report := await harness.provider.probe()).level == "none":
            pytest.skip("; ".join(report.reasons))
        handle = await harness.runs.start(RunRequest(task="script:lead go", thread_id="t"))
        folder = await workspace(harness)
        beats = [folder / f"beat-{n}" for n in (1, 2)]
        assert await until(lambda: all(beat.exists() for beat in beats), seconds=30)
        handle.cancel()
        result = await handle.result()
        assert result.status == "cancelled"
        last = [beat.read_text() for beat in beats]
        moved = await until(lambda: [beat.read_text() for beat in beats] != last, seconds=1)
        assert not moved, "a child's process outlived the stop"
        events = [event async for event in handle.events()]
    calls = [e.payload["task_id"] for e in events if e.type == "task_started"]
    cancelled = {e.payload["task_id"] for e in events if e.type == "task_cancelled"}
    assert len(calls) == 2 and cancelled == set(calls)
    async with harness_on(home) as harness:  # after a reload
        after = await played(harness, "script:next go on")
        assert after.result.text == "Next."
        assert not [e for e in after.events if e.type.startswith("task_")]
        state = await state_of(harness)
        thread = await harness.storage.threads.get("local", "t")
        assert thread is not None
        log = await harness.storage.events.read(thread.thread_key)
    results = {m.tool_call_id: m for m in state["messages"] if m.type == "tool"}
    assert set(results) == set(calls)
    for message in results.values():
        assert (message.text, message.status) == (STOPPED, "error")
        assert message.additional_kwargs["subagent_status"] == "cancelled"
    assert {e["status"] for e in state["delegations"].values()} == {"cancelled"}
    newest = {e.payload["task_id"]: e.type for e in log if e.type.startswith("task_")}
    assert set(newest.values()) == {"task_cancelled"}


async def test_p05_a_child_that_waits_for_room_is_cancelled_too(tmp_path: Path) -> None:
    home = tmp_path
    stories = STORIES | {"child1": [says("", delay_ms=60_000)], "child2": [says("never")]}
    one_at_a_time = {"global": 1}
    async with scripted_harness(
        [], home, models=[model(stories)], subagents=one_at_a_time
    ) as harness:
        handle = await harness.runs.start(RunRequest(task="script:lead go", thread_id="t"))
        async for event in handle.events():
            if event.type == "tool_started" and event.payload["tool_call_id"].endswith("_1"):
                break
        await asyncio.sleep(0)
        handle.cancel()
        assert (await handle.result()).status == "cancelled"
        events = [event async for event in handle.events()]
        assert [e.type for e in events if e.type == "task_started"] == ["task_started"]
        assert len([e for e in events if e.type == "task_cancelled"]) == 2
        after = await played(harness, "script:next go on")
    answers = [m for m in after.state["messages"] if m.type == "tool"]
    assert [m.additional_kwargs["subagent_status"] for m in answers] == ["cancelled"] * 2
