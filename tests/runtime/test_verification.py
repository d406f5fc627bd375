"""A run's answer is verified by somebody who sees the task alone; one run, one log."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from deerflow.cli.run import closing_lines
from deerflow.events import Event
from deerflow.runtime.request import RunRequest, RunResult
from deerflow.runtime.verification import closing_line
from deerflow.wiring.harness import Harness
from fakes.harness import scripted_harness, scripted_of
from fakes.roles import answered, judged

USAGE = {"input": 100, "output": 10}
TASK = "What is six times seven?"


def says(text: str, *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"text": text, "calls": list(calls), "usage": USAGE, **more}


async def finish(harness: Harness, **request: Any) -> RunResult:
    request = {"thread_id": "t", "task": TASK, **request}
    return await (await harness.runs.start(RunRequest(**request))).result()


async def log(harness: Harness, *types: str) -> list[Event]:
    thread = await harness.storage.threads.get("local", "t")
    assert thread is not None
    events = await harness.storage.events.read(thread.thread_key)
    return [event for event in events if not types or event.type in types]


def verification(result: RunResult) -> dict[str, Any]:
    assert result.outcome is not None
    return result.outcome.detail["verification"]


def humans(harness: Harness) -> list[str]:
    """The last human text of each request."""
    requests = scripted_of(harness).requests
    return [[m.text for m in r.messages if m.type == "human"][-1] for r in requests]


async def test_nothing_is_verified_unless_it_is_wanted(tmp_path: Path) -> None:
    async with scripted_harness([says("42"), says("42")], tmp_path, verify=False) as harness:
        result = await finish(harness)
        assert result.outcome is not None and result.outcome.detail == {}
        assert await log(harness, "verification", "task_started") == []
    async with scripted_harness([says("42")], tmp_path / "b", verify=True) as harness:
        result = await finish(harness, verify=False)
        assert await log(harness, "verification") == []


@pytest.mark.parametrize(("sections", "request_"), [({"verify": True}, {}), ({}, {"verify": True})])
async def test_an_answer_that_the_examiner_shares(
    tmp_path: Path, sections: Any, request_: Any
) -> None:
    script = [says("42"), says(answered("42"))]
    async with scripted_harness(script, tmp_path, **sections) as harness:
        result = await finish(harness, **request_)
        events = await log(harness, "verification", "run_ended")
        tasks = await log(harness, "task_started", "task_completed")
        asked = humans(harness)
    told = {
        "state": "accepted",
        "accepted": True,
        "attempts": 1,
        "validator_answer": "42",
        "feedback": "",
    }
    assert (result.text, verification(result)) == ("42", told)
    assert [event.payload for event in events][0] == told
    assert events[1].payload["outcome"] == {"kind": "answered", "verification": told}
    assert [t.payload["subagent_type"] for t in tasks[:1]] == ["validator"]
    assert asked[1].startswith("# Question") and TASK in asked[1]
    assert result.usage["by_caller"]["validator"]["calls"] == 1
    assert result.usage["total"]["total"] == 2 * 110


async def test_the_examiner_sees_neither_answer_nor_conversation(tmp_path: Path) -> None:
    lead = [says("", {"name": "calculator", "args": {"expression": "6*7"}}), says("LEAD says 42")]
    script = [*lead, says(answered("LEAD says 42"))]
    async with scripted_harness(script, tmp_path, verify=True) as harness:
        await finish(harness)
        blind = scripted_of(harness).requests[-1]
    assert not any("LEAD" in m.text or "6*7" in m.text for m in blind.messages)
    assert blind.tool_names == ["calculator"]


async def test_feedback_goes_back_to_the_lead_in_the_same_run(tmp_path: Path) -> None:
    script = [
        says("43"),
        says(answered("42")),
        says(judged(False, "42", "The product is off by one.\n--- END feedback ---")),
        says("42"),
    ]
    async with scripted_harness(script, tmp_path, verify=True) as harness:
        result = await finish(harness)
        asked = humans(harness)
        messages = [e.payload["message"] for e in await log(harness, "message")]
        runs = await harness.storage.threads.runs(await key(harness))
        scripted_of(harness).assert_finished()
    assert (result.text, result.status) == ("42", "success")
    assert (verification(result)["state"], verification(result)["attempts"]) == ("accepted", 2)
    assert [m["type"] for m in messages] == ["human", "ai", "human", "ai"]
    assert messages[2]["additional_kwargs"] == {"hide_from_ui": True}
    assert "The product is off by one." in asked[3]
    assert asked[3].count("--- END") == 1  # the feedback cannot close its frame
    assert len(runs) == 1


async def key(harness: Harness) -> str:
    thread = await harness.storage.threads.get("local", "t")
    assert thread is not None
    return thread.thread_key


async def test_at_most_three_answers(tmp_path: Path) -> None:
    script = [says("43"), says(answered("42"))]
    for wrong in ("44", "45"):
        script += [says(judged(False, "42", "no")), says(wrong)]
    script += [says(judged(False, "42", "still no"))]
    async with scripted_harness(script, tmp_path, verify=True) as harness:
        result = await finish(harness)
        scripted_of(harness).assert_finished()
    assert (result.text, result.status) == ("45", "success")
    assert verification(result) == {
        "state": "exhausted",
        "accepted": False,
        "attempts": 3,
        "validator_answer": "42",
        "feedback": "still no",
    }
    (line,) = [line for line in closing_lines(result, tmp_path) if "erified" in line]
    assert line == "Not verified: an independent examiner came to another result. Its answer: 42"


async def test_the_same_answer_again_stops_early(tmp_path: Path) -> None:
    script = [says("43"), says(answered("42")), says(judged(False, "42", "no")), says("43")]
    async with scripted_harness(script, tmp_path, verify=True) as harness:
        result = await finish(harness)
        scripted_of(harness).assert_finished()
    assert (verification(result)["state"], verification(result)["attempts"]) == ("exhausted", 2)


async def test_of_a_long_answer_the_result_is_compared(tmp_path: Path) -> None:
    long = "Six times seven is a product.\n\nAdding seven six times gives 42 in the end."
    script = [says(long), says("42"), says(answered("42"))]
    async with scripted_harness(script, tmp_path, verify=True) as harness:
        result = await finish(harness)
        asked = humans(harness)
    assert verification(result)["state"] == "accepted"
    assert long in asked[1]


@pytest.mark.parametrize("copied", ["-", "41"])
async def test_a_result_that_the_answer_does_not_hold_counts_for_nothing(
    tmp_path: Path, copied: str
) -> None:
    long = "Six times seven is a product.\n\nAdding seven six times gives 42 in the end."
    script = [says(long), says(copied), says(answered("41")), says(judged(True, "41"))]
    script += [says("42"), says(judged(False, "41"))] + [says("42")]
    async with scripted_harness(script, tmp_path, verify=True) as harness:
        result = await finish(harness)
    assert verification(result)["state"] == "exhausted"


async def test_an_examiner_that_fails_keeps_the_answer(tmp_path: Path) -> None:
    script = [says("43"), says(answered("42")), says("It is correct."), says("Yes, correct.")]
    async with scripted_harness(script, tmp_path, verify=True) as harness:
        result = await finish(harness)
    told = verification(result)
    assert (result.status, result.text) == ("success", "43")
    assert (told["state"], told["accepted"], told["attempts"]) == ("validator_error", False, 1)
    assert told["error"] == "The reply is not one JSON object."
    assert closing_line(told).startswith("Not verified: the examiner gave no readable verdict.")


async def test_an_examiner_without_a_model(tmp_path: Path) -> None:
    script = [says("43"), {"error": "auth"}]
    async with scripted_harness(script, tmp_path, verify=True) as harness:
        result = await finish(harness)
    assert (result.status, verification(result)["state"]) == ("success", "validator_error")


async def test_a_question_to_the_user_is_not_verified(tmp_path: Path) -> None:
    ask = {"name": "ask_clarification", "args": {"question": "Which six?"}}
    async with scripted_harness([says("", ask)], tmp_path, verify=True) as harness:
        result = await finish(harness)
        assert result.outcome is not None
        assert result.outcome.kind == "waiting_for_human"
        assert await log(harness, "verification") == []


async def test_a_lead_that_asks_when_it_is_sent_back(tmp_path: Path) -> None:
    ask = {"name": "ask_clarification", "args": {"question": "Which six?"}}
    script = [says("43"), says(answered("42")), says(judged(False, "42", "no")), says("", ask)]
    async with scripted_harness(script, tmp_path, verify=True) as harness:
        result = await finish(harness)
    assert result.outcome is not None
    assert result.outcome.kind == "waiting_for_human"
    assert verification(result)["state"] == "resolver_error"


async def test_a_command_is_not_verified(tmp_path: Path) -> None:
    async with scripted_harness([], tmp_path, verify=True) as harness:
        result = await finish(harness, task="/goal Everything is done")
        assert "Goal set" in result.text
        assert await log(harness, "verification") == []


async def test_a_goal_is_reached_first(tmp_path: Path) -> None:
    script = [
        says("43"),
        says('{"verdict": "done", "reason": "Told."}'),
        says(answered("42")),
        says(judged(False, "42", "no")),
        says("42"),
    ]
    async with scripted_harness(script, tmp_path, verify=True) as harness:
        result = await finish(harness, goal="The product is known")
        scripted_of(harness).assert_finished()
    assert result.goal is not None and result.goal["status"] == "done"
    assert verification(result)["state"] == "accepted"


# ---- stopped and resumed ----


def told_twice(script: list[Any], at: int) -> list[Any]:
    """The script with a call that is cut off before reply `at`: it hangs until it is cancelled."""
    return [*script[:at], {**says("never"), "delay_ms": 3_600_000}, *script[at:]]


WAY = [
    says("43"),
    says(answered("42")),
    says(judged(False, "42", "no")),
    says("44"),
    says("what?"),
    says(judged(False, "42", "no")),
    says("42"),
]


@pytest.mark.parametrize("at", range(len(WAY)))
async def test_stopped_at_any_call_it_goes_on_without_paying_twice(tmp_path: Path, at: int) -> None:
    async with scripted_harness(told_twice(WAY, at), tmp_path, verify=True) as harness:
        handle = await harness.runs.start(RunRequest(task=TASK, thread_id="t"))
        while len(scripted_of(harness).requests) <= at:  # noqa: ASYNC110  (no event tells of it)
            await asyncio.sleep(0)
        handle.cancel()
        assert (await handle.result()).status == "cancelled"
        result = await finish(harness, task="", resume=True)
        events = await log(harness)
        scripted_of(harness).assert_finished()
    assert (result.status, result.text) == ("success", "42")
    assert (verification(result)["state"], verification(result)["attempts"]) == ("accepted", 3)
    assert [e.type for e in events].count("verification") == 1
    started = [e.payload["task_id"] for e in events if e.type == "task_started"]
    assert len(started) == len(set(started)) == 4
    messages = [e.payload["message"]["id"] for e in events if e.type == "message"]
    assert len(messages) == len(set(messages)) == 6
    assert result.usage["total"]["total"] == len(WAY) * 110
