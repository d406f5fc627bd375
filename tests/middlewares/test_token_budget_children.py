"""Row 12 over a whole run with children: P04, and what the outcome says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deerflow.middlewares.spending import today
from deerflow.runtime.outcome import answer_of
from fakes.children import family, model, played, task
from fakes.harness import scripted_harness

HEAVY = {"input": 40_000, "output": 400}
"""110 such turns of a child are the 4.4M tokens that it once took for a sentence."""


def looks(number: int) -> dict[str, Any]:
    call = {"name": "calculator", "args": {"expression": f"{number}+1"}}
    return {"text": f"Looked at {number}.", "calls": [call], "usage": HEAVY}


def stories() -> dict[str, Any]:
    asked = [task(f"script:child{n} one sentence about {n}") for n in range(3)]
    lead = [
        {"calls": asked, "usage": {"input": 4_000, "output": 100}},
        {"text": "Three sentences.", "usage": {"input": 5_000, "output": 100}},
    ]
    return {"lead": lead} | {f"child{n}": [looks(i) for i in range(110)] for n in range(3)}


async def test_p04_three_runaway_children_stay_within_the_budget_of_the_run(tmp_path: Path) -> None:
    run = await family(tmp_path, stories(), token_budget={"enabled": True, "max_tokens": 400_000})
    used = run.result.usage["total"]["total"]
    assert 200_000 < used <= 400_000
    ended = run.of("task_completed")
    assert [end["stop_reason"] for end in ended] == ["token_budget.max_tokens"] * 3
    assert all("Looked at" in answer.text for answer in run.answers)
    assert all("token_budget.max_tokens" in answer.text for answer in run.answers)
    assert answer_of(run.result.messages).startswith("Three sentences.")
    assert run.result.outcome is not None
    assert run.result.outcome.kind == "answered", "the children left room for the lead's answer"
    rules = [(told["rule"], told["action"]) for told in run.of("guard")]
    assert rules.count(("token_budget.max_tokens", "warned")) == 1


async def test_p04_each_child_stops_by_itself_within_its_own_budget(tmp_path: Path) -> None:
    budget = {"enabled": True, "max_tokens": 100_000}
    run = await family(tmp_path, stories(), subagents={"token_budget": budget})
    ended = run.of("task_completed")
    assert [end["stop_reason"] for end in ended] == ["subagents.token_budget.max_tokens"] * 3
    assert all(end["usage"]["total"]["total"] <= 100_000 for end in ended)
    assert run.result.outcome is not None
    assert (run.result.outcome.kind, run.result.text) == ("answered", "Three sentences.")
    warned = [told for told in run.of("guard") if told["action"] == "warned"]
    assert {told["rule"] for told in warned} == {"subagents.token_budget.max_tokens"}
    assert len({told["task_id"] for told in warned}) == len(warned)


async def test_the_day_is_charged_for_lead_children_and_title(tmp_path: Path) -> None:
    told = stories()
    for number in range(3):
        told[f"child{number}"] = [{"text": "A sentence.", "usage": {"input": 70, "output": 7}}]
    title = {
        "name": "titles",
        "use": "deerflow.models.scripted:ScriptedChatModel",
        "script": [{"text": "Sentences", "usage": {"input": 30, "output": 3}}],
    }
    priced = {"pricing": {"currency": "EUR", "input": 1.0, "output": 1.0}}
    async with scripted_harness(
        [],
        tmp_path,
        models=[model(told, **priced), title],
        title={"model_name": "titles"},
        token_budget={"user_day": 1_000_000, "money_day": 10, "currency": "EUR"},
    ) as harness:
        got = await played(harness)
        spent = await harness.storage.spending.of("local", today())
    total = 4_100 + 5_100 + 3 * 77 + 33
    assert got.result.usage["total"]["total"] == total
    assert spent.tokens == total
    assert round(spent.money["EUR"], 9) == round((total - 33) / 1_000_000, 9)
    assert got.result.usage["by_caller"]["title"]["total"] == 33
    notices = [told["message"] for told in got.of("notice")]
    assert notices == [], "the title's model is not one that the run is led by"
