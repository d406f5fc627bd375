"""Row 12 through a harness: outcomes, answers asked for again, days, a stop and its resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deerflow.middlewares.spending import today
from deerflow.runtime.request import RunRequest, RunResult
from deerflow.wiring.harness import Harness
from fakes.harness import scripted_harness


async def finish(harness: Harness, **request: Any) -> RunResult:
    return await (await harness.runs.start(RunRequest(**request))).result()


def calculates(number: int, taken: int) -> dict[str, Any]:
    call = {"name": "calculator", "args": {"expression": f"{number}+1"}}
    return {"calls": [call], "usage": {"input": taken, "output": 20}}


async def test_a_run_ends_with_the_outcome_and_the_closing_answer(tmp_path: Path) -> None:
    script = [calculates(1, 8_000), {**calculates(2, 8_200), "text": "So far 2."}]
    script.append({"text": "I counted to 3.", "usage": {"input": 8_400, "output": 30}})
    async with scripted_harness(
        script, tmp_path, token_budget={"enabled": True, "max_tokens": 30_000}
    ) as harness:
        ended = await finish(harness, task="Count", thread_id="t")
        again = await finish(harness, task="And now?", thread_id="t")
    assert ended.outcome is not None
    assert ended.status == "success"
    assert ended.outcome.kind == "limit_reached"
    assert ended.outcome.detail["rule"] == "token_budget.max_tokens"
    assert ended.outcome.detail["used"] <= ended.outcome.detail["limit"] == 30_000
    assert ended.text.startswith("I counted to 3.")
    assert ended.usage["total"]["total"] == ended.outcome.detail["used"]
    assert again.error is not None and again.error["code"] == "script_exhausted"


async def test_asking_again_within_a_turn_is_within_the_budget_too(tmp_path: Path) -> None:
    """An empty answer would be asked for once more, a cut one continued: not without room."""
    heavy = {"input": 17_000, "output": 1_000}
    empty = [{"text": "", "usage": heavy}]
    cut = [{"text": "The first half", "finish_reason": "length", "usage": heavy}]
    budget = {"enabled": True, "max_tokens": 20_000}
    async with scripted_harness(empty, tmp_path / "a", token_budget=budget) as harness:
        ended = await finish(harness, task="Say something")
    assert ended.outcome is not None
    assert ended.outcome.detail == {
        "rule": "token_budget.max_tokens", "used": 18_000, "limit": 20_000
    }  # fmt: skip
    async with scripted_harness(cut, tmp_path / "b", token_budget=budget) as harness:
        halved = await finish(harness, task="Say something long")
    assert halved.outcome is not None and halved.outcome.kind == "answered"
    assert halved.text.startswith("The first half")
    assert "cut" in halved.text


async def test_a_day_that_is_used_up_is_told_to_its_user_alone(tmp_path: Path) -> None:
    script = [{"text": "Hello."}]
    async with scripted_harness(script, tmp_path, token_budget={"user_day": 50_000}) as harness:
        await harness.storage.spending.add("local", today(), 50_000, {})
        ended = await finish(harness, task="Hello?")
        other = await finish(harness, task="Hello?", user_id="ben")
    assert ended.outcome is not None
    assert ended.outcome.detail["rule"] == "token_budget.user_day"
    assert "today" in ended.text
    assert ended.usage["total"]["calls"] == 0
    assert other.text == "Hello."


async def test_a_stop_and_a_resume_charge_the_day_once(tmp_path: Path) -> None:
    slow = {"text": "word " * 50, "gap_ms": 50}
    end = {"text": "Done.", "usage": {"input": 100, "output": 10}}
    budget = {"user_day": 1_000_000, "run": 500_000}
    async with scripted_harness(
        [calculates(1, 8_000), slow, end], tmp_path, token_budget=budget
    ) as harness:
        handle = await harness.runs.start(RunRequest(task="Count", thread_id="t"))
        async for delta in handle.deltas():
            if delta.text.startswith("word"):
                break
        handle.cancel()
        assert (await handle.result()).status == "cancelled"
        result = await finish(harness, thread_id="t", resume=True)
        spent = await harness.storage.spending.of("local", today())
    assert result.text == "Done."
    assert result.usage["total"]["total"] == spent.tokens == 8_130
