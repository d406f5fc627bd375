"""Runs from admission to their end: outcomes, uploads, cancel, resume, conflicts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool

from deerflow.errors import ConflictError, NotFoundError, UsageError
from deerflow.events import Event
from deerflow.runtime.request import RunRequest, RunResult
from deerflow.wiring.harness import Harness
from fakes.harness import scripted_harness


async def finish(harness: Harness, **request: Any) -> RunResult:
    handle = await harness.runs.start(RunRequest(**request))
    return await handle.result()


async def log(harness: Harness, thread_id: str) -> list[Event]:
    thread = await harness.storage.threads.get("local", thread_id)
    assert thread is not None
    return await harness.storage.events.read(thread.thread_key)


async def test_an_answer(tmp_path: Path) -> None:
    async with scripted_harness([{"text": "Four."}], tmp_path) as harness:
        result = await finish(harness, task="What is 2 + 2?")
        events = await log(harness, result.thread_id)
    assert (result.status, result.outcome and result.outcome.kind) == ("success", "answered")
    assert result.text == "Four."
    assert [e.seq for e in events] == list(range(1, len(events) + 1))
    assert (events[0].type, events[-1].type) == ("run_started", "run_ended")
    assert events[-1].payload["status"] == "success"
    assert [e.payload["message"]["type"] for e in events if e.type == "message"] == ["human", "ai"]


async def test_a_plain_answer_makes_no_folder(tmp_path: Path) -> None:
    async with scripted_harness([{"text": "Hi."}], tmp_path) as harness:
        await finish(harness, task="Hello")
    assert not (tmp_path / "users").exists()


async def test_handle_events_end_with_the_run(tmp_path: Path) -> None:
    async with scripted_harness([{"text": "a"}, {"text": "b"}], tmp_path) as harness:
        for task in ("one", "two"):
            handle = await harness.runs.start(RunRequest(task=task, thread_id="t"))
            events = [event async for event in handle.events()]
            assert {e.run_id for e in events} == {handle.run_id}
            assert events[-1].type == "run_ended"
        assert events[0].seq > 1


async def test_deltas_come_before_the_message(tmp_path: Path) -> None:
    script = [{"text": "one two three", "gap_ms": 1}]
    async with scripted_harness(script, tmp_path) as harness:
        handle = await harness.runs.start(RunRequest(task="count"))
        text = ""
        async with asyncio.timeout(10):
            async for delta in handle.deltas():
                assert delta.offset == len(text)
                text += delta.text
                if text == "one two three":
                    break
        assert (await handle.result()).text == "one two three"


async def test_a_question_waits_for_a_human(tmp_path: Path) -> None:
    ask = {"name": "ask_clarification", "args": {"question": "Which one?", "options": ["a", "b"]}}
    async with scripted_harness([{"calls": [ask]}, {"text": "Took b."}], tmp_path) as harness:
        result = await finish(harness, task="Choose", thread_id="t")
        assert result.outcome is not None
        assert result.outcome.kind == "waiting_for_human"
        assert result.outcome.detail["question"]["question"] == "Which one?"
        assert result.status == "success"
        again = await finish(harness, task="b", thread_id="t")
        assert again.text == "Took b."


async def test_limit_reached(tmp_path: Path) -> None:
    turns = [
        {"calls": [{"name": "calculator", "args": {"expression": f"{n}+1"}}]} for n in range(3)
    ]
    async with scripted_harness(turns, tmp_path) as harness:
        result = await finish(harness, task="Count", max_turns=2)
    assert result.outcome is not None
    assert result.outcome.to_dict() == {
        "kind": "limit_reached", "rule": "max_turns", "used": 2, "limit": 2
    }  # fmt: skip


async def test_p18_deliverable_missing_then_reminded(tmp_path: Path) -> None:
    script = [{"text": "I have written it."}, {"text": "Really."}]
    async with scripted_harness(script, tmp_path) as harness:
        result = await finish(harness, task="Write report.md")
    assert result.outcome is not None
    assert result.outcome.kind == "deliverable_missing"
    assert result.outcome.detail["missing"] == ["/mnt/user-data/outputs/report.md"]
    assert result.text == "Really."


@pytest.mark.parametrize("text", ["", " \n"])
async def test_p18_an_empty_answer_is_tried_once_more_and_told(tmp_path: Path, text: str) -> None:
    async with scripted_harness([{"text": text}, {"text": text}], tmp_path) as harness:
        result = await finish(harness, task="Say something")
    assert result.outcome is not None
    assert result.outcome.kind == "empty"
    assert result.text


async def test_a_failing_model_ends_the_run_and_leaves_the_thread_usable(tmp_path: Path) -> None:
    script = [{"error": "auth"}, {"text": "Back."}]
    async with scripted_harness(script, tmp_path) as harness:
        result = await finish(harness, task="Go", thread_id="t")
        assert result.status == "error"
        assert result.error is not None
        assert result.error["code"] == "model_auth"
        again = await finish(harness, task="Again", thread_id="t")
    assert again.text == "Back."


async def test_uploads_are_there_and_partial_files_are_not(tmp_path: Path) -> None:
    source = tmp_path / "Zahlen – 数据.csv"
    source.write_text("a,b\n")
    home = tmp_path / "home"
    script = [
        {"calls": [{"name": "ls", "args": {"path": "/mnt/user-data/uploads"}}]},
        {"text": "ok"},
    ]
    async with scripted_harness(script, home) as harness:
        result = await finish(harness, task="Look", uploads=(source,))
        events = await log(harness, result.thread_id)
    files = [p.name for p in home.rglob("uploads/*")]
    assert files == ["Zahlen – 数据.csv"]
    human = next(e.payload["message"] for e in events if e.type == "message")
    assert human["content"] == "Look"


async def test_bad_requests_write_nothing(tmp_path: Path) -> None:
    async with scripted_harness([], tmp_path) as harness:
        for request, error in (
            (RunRequest(task=" "), UsageError),
            (RunRequest(task="x", model="nope"), NotFoundError),
            (RunRequest(task="x", uploads=(tmp_path / "absent",)), UsageError),
            (RunRequest(thread_id="absent", resume=True), NotFoundError),
        ):
            with pytest.raises(error):
                await harness.runs.start(request)
        assert await harness.storage.threads.list("local") == []


@pytest.fixture
def gate() -> asyncio.Event:
    return asyncio.Event()


def waiting_tool(gate: asyncio.Event, effects: list[str]) -> Any:
    @tool
    async def wait() -> str:
        """Wait."""
        effects.append("started")
        await gate.wait()
        effects.append("finished")
        return "waited"

    return wait


WAIT = [{"calls": [{"name": "wait", "args": {}}]}, {"text": "done"}]


async def started(handle: Any) -> None:
    async for event in handle.events():
        if event.type == "tool_started":
            return


async def test_cancel_saves_and_resume_goes_on(tmp_path: Path, gate: asyncio.Event) -> None:
    effects: list[str] = []
    async with scripted_harness(WAIT, tmp_path, tools=[waiting_tool(gate, effects)]) as harness:
        handle = await harness.runs.start(RunRequest(task="Wait", thread_id="t"))
        await started(handle)
        handle.cancel()
        result = await handle.result()
        assert result.status == "cancelled"
        resumed = await finish(harness, thread_id="t", resume=True)
        assert resumed.text == "done"
        assert resumed.run_id == result.run_id
        events = await log(harness, "t")
    assert effects == ["started"]
    results = [
        m for e in events if e.type == "message" and (m := e.payload["message"])["type"] == "tool"
    ]
    assert len(results) == 1
    assert "unknown" in results[0]["content"]
    assert [e.seq for e in events] == list(range(1, len(events) + 1))


async def test_a_new_message_after_a_cancel_finds_a_legal_thread(
    tmp_path: Path, gate: asyncio.Event
) -> None:
    effects: list[str] = []
    async with scripted_harness(WAIT, tmp_path, tools=[waiting_tool(gate, effects)]) as harness:
        handle = await harness.runs.start(RunRequest(task="Wait", thread_id="t"))
        await started(handle)
        handle.cancel()
        await handle.result()
        result = await finish(harness, task="Go on", thread_id="t")
    assert result.text == "done"


async def test_one_run_per_thread(tmp_path: Path, gate: asyncio.Event) -> None:
    async with scripted_harness(WAIT, tmp_path, tools=[waiting_tool(gate, [])]) as harness:
        handle = await harness.runs.start(RunRequest(task="Wait", thread_id="t"))
        with pytest.raises(ConflictError):
            await harness.runs.start(RunRequest(task="Too", thread_id="t"))
        with pytest.raises(ConflictError):
            await harness.runs.delete_thread("local", "t")
        gate.set()
        assert (await handle.result()).text == "done"


async def test_closing_the_harness_ends_its_runs(tmp_path: Path, gate: asyncio.Event) -> None:
    async with scripted_harness(WAIT, tmp_path, tools=[waiting_tool(gate, [])]) as harness:
        handle = await harness.runs.start(RunRequest(task="Wait", thread_id="t"))
        await started(handle)
    assert (await handle.result()).status == "cancelled"


async def test_deleting_a_thread_leaves_no_folder(tmp_path: Path) -> None:
    source = tmp_path / "a.txt"
    source.write_text("x")
    home = tmp_path / "home"
    async with scripted_harness([{"text": "ok"}], home) as harness:
        await finish(harness, task="Look", thread_id="t", uploads=(source,))
        assert list(home.rglob("a.txt"))
        assert await harness.runs.delete_thread("local", "t")
        assert not await harness.runs.delete_thread("local", "t")
        assert await harness.storage.threads.get("local", "t") is None
    assert not list(home.rglob("a.txt"))
