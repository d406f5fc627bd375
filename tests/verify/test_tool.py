"""`verify_answer`: what the lead hands in, what it hears, and what that costs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage

from deerflow.runtime.request import RunRequest, RunResult
from deerflow.wiring.harness import Harness
from fakes.harness import scripted_harness, scripted_of
from fakes.roles import answered, judged

USAGE = {"input": 100, "output": 10}
OPTIONS = ["red", "green", "blue"]


def says(text: str, *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"text": text, "calls": list(calls), "usage": USAGE, **more}


def verify(**args: Any) -> dict[str, Any]:
    given = {"question": "What is six times seven?", "answer": "42", **args}
    return says("", {"name": "verify_answer", "args": given})


async def finish(harness: Harness, **request: Any) -> RunResult:
    request = {"thread_id": "t", "task": "Go.", "verify": False, **request}
    return await (await harness.runs.start(RunRequest(**request))).result()


async def heard(tmp_path: Path, call: dict[str, Any], *replies: Any) -> ToolMessage:
    """What the lead is told of its call."""
    script = [call, *(says(reply) for reply in replies), says("Done.")]
    async with scripted_harness(script, tmp_path, verify=True) as harness:
        result = await finish(harness)
        scripted_of(harness).assert_finished()
    (message,) = [m for m in result.messages if isinstance(m, ToolMessage)]
    return message


async def test_the_tool_is_offered_where_the_configuration_says_so(tmp_path: Path) -> None:
    for verify_ in (True, False):
        async with scripted_harness([says("42")], tmp_path, verify=verify_) as harness:
            await finish(harness)
            assert ("verify_answer" in scripted_of(harness).requests[0].tool_names) == verify_


async def test_an_answer_that_is_shared(tmp_path: Path) -> None:
    message = await heard(tmp_path, verify(), answered("42"))
    told = {"accepted": True, "state": "accepted", "own_answer": "42", "feedback": ""}
    assert json.loads(message.text) == told
    assert message.additional_kwargs["deerflow_verification"] == told
    assert message.additional_kwargs["deerflow_usage"]["total"]["total"] == 110


async def test_what_code_says_is_told(tmp_path: Path) -> None:
    """The sandbox of this harness has no Python: that check fails, and the examiner decides."""
    call = verify(question="Solve the equation 2x + 3 = 27.", answer="x = 12")
    told = json.loads((await heard(tmp_path, call, answered("x = 12"))).text)
    assert (told["accepted"], told["check"]) == (True, "check_failed")


async def test_an_answer_that_is_not(tmp_path: Path) -> None:
    no = judged(False, "42", "The product is off by one.")
    message = await heard(tmp_path, verify(answer="43"), answered("42"), no)
    assert json.loads(message.text) == {
        "accepted": False,
        "state": "exhausted",
        "own_answer": "42",
        "feedback": "The product is off by one.",
    }


async def test_an_examiner_that_gives_no_verdict(tmp_path: Path) -> None:
    message = await heard(
        tmp_path, verify(answer="43"), answered("42"), "The answer is incorrect", "It is correct"
    )
    told = json.loads(message.text)
    assert (told["accepted"], told["state"], told["own_answer"]) == (False, "validator_error", "42")
    assert "JSON" in told["error"]


@pytest.mark.parametrize(
    ("answer", "options"),
    [
        ("B", OPTIONS),
        ("green", OPTIONS),
        ("Green ", OPTIONS),
        ("The answer is B", OPTIONS),
        ("B. green", ["A. red", "B. green"]),
        ("B", ["A) red", "B) green"]),
    ],
)
async def test_options_are_compared_by_letter(
    tmp_path: Path, answer: str, options: list[str]
) -> None:
    call = verify(question="Which?", answer=answer, options=options)
    assert json.loads((await heard(tmp_path, call, answered("B"))).text)["accepted"] is True


@pytest.mark.parametrize(
    "args",
    [
        {"question": " "},
        {"answer": ""},
        {"answer": "x" * 20_001},
        {"question": "x" * 20_001},
        {"options": ["one"]},
        {"options": ["one", " "]},
        {"options": [str(n) for n in range(27)]},
    ],
)
async def test_what_cannot_be_verified_is_refused(tmp_path: Path, args: dict[str, Any]) -> None:
    message = await heard(tmp_path, verify(**args))
    assert message.status == "error"


async def test_the_examiner_sees_the_question_alone(tmp_path: Path) -> None:
    script = [verify(question="THE QUESTION"), says(answered("42")), says("Done.")]
    async with scripted_harness(script, tmp_path, verify=True) as harness:
        result = await finish(harness, task="THE TASK")
        blind = scripted_of(harness).requests[1]
        events = await harness.storage.events.read(await thread(harness))
    text = "\n".join(m.text for m in blind.messages)
    assert "THE QUESTION" in text and "THE TASK" not in text and "42" not in text
    assert blind.tool_names == ["calculator"]
    assert result.usage["by_caller"]["validator"]["total"] == 110
    assert result.usage["total"]["total"] == 3 * 110
    started = [e.payload for e in events if e.type == "task_started"]
    assert [s["description"] for s in started] == ["validator: blind"]


async def thread(harness: Harness) -> str:
    row = await harness.storage.threads.get("local", "t")
    assert row is not None
    return row.thread_key


@pytest.mark.parametrize("at", [1, 2, 3])
async def test_stopped_inside_it_goes_on_without_paying_twice(tmp_path: Path, at: int) -> None:
    way = [
        verify(answer="43"),
        says(answered("42")),
        says(judged(False, "42", "no")),
        says("Done."),
    ]
    script = [*way[:at], {**says("never"), "delay_ms": 3_600_000}, *way[at:]]
    async with scripted_harness(script, tmp_path, verify=True) as harness:
        handle = await harness.runs.start(RunRequest(task="Go.", thread_id="t", verify=False))
        while len(scripted_of(harness).requests) <= at:  # noqa: ASYNC110  (no event tells of it)
            await asyncio.sleep(0)
        handle.cancel()
        await handle.result()
        stopped = len(scripted_of(harness).requests)
        result = await finish(harness, task="", resume=True)
        played = len(scripted_of(harness).requests)
    assert (result.status, result.text) == ("success", "Done.")
    assert stopped + len(way) - at == played
    assert result.usage["total"]["total"] == len(way) * 110
