"""Summaries: in steps when there is much, without a model when it fails, counted and bounded."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage

from deerflow.agent.context import RunContext
from deerflow.config.schema import SummarizationConfig
from deerflow.middlewares.summary import Summariser, Task, longest, packed
from deerflow.middlewares.token_usage import usage_of
from deerflow.models.protocol import ModelSpec, Pricing
from deerflow.models.scripted import ScriptedChatModel
from deerflow.models.usage import estimate_text
from fakes.rows import calls, result, run_context, user

SPEC = ModelSpec("writer", "scripted", "writer", pricing=Pricing("EUR", 1.0, 1.0))


def covered(count: int = 2, text: str = "It weighs 40 kg.") -> list[AnyMessage]:
    made: list[AnyMessage] = []
    for n in range(count):
        made += [user(f"Ask {n}", id=f"u{n}"), AIMessage(f"Answer {n}. {text}", id=f"a{n}")]
    return made


def task(messages: list[AnyMessage] | None = None, **fields: Any) -> Task:
    values: dict[str, Any] = {"earlier": "", "hint": "", "window": 32_000, "turn": 1}
    return Task(covered() if messages is None else messages, **{**values, **fields})


def writer(*turns: Any) -> ScriptedChatModel:
    return ScriptedChatModel(script=list(turns))


async def written(
    model: ScriptedChatModel | None, one: Task, run: RunContext | None = None, **config: Any
) -> str:
    return await Summariser(SummarizationConfig(**config), model, SPEC, run or run_context()).write(
        one
    )


async def test_one_call_is_shown_the_transcript_and_the_notes_so_far() -> None:
    model = writer("**Goal**: deer.")
    assert (
        await written(model, task(earlier="It began well.", hint="the names")) == "**Goal**: deer."
    )
    system, body = [m.text for m in model.requests[0].messages]
    assert "The user asks to keep above all: the names" in system
    assert "It began well." in body
    assert "## User\n\nAsk 0\n\n## Agent\n\nAnswer 0. It weighs 40 kg." in body


async def test_much_is_read_in_parts_that_are_folded_and_nothing_is_left_out() -> None:
    model = writer(*[{"text": f"note {n}"} for n in range(200)])
    messages = covered(40, "Deer eat grass. " * 20)
    text = await written(model, task(messages), trim_tokens_to_summarize=1_000)
    bodies = [request.messages[1].text for request in model.requests]
    assert len(bodies) > 4
    assert all(estimate_text(body) < 1_000 + 50 for body in bodies)
    for n in range(40):
        assert sum(f"Answer {n}." in body for body in bodies) == 1
    assert all(f"note {n}" in bodies[-1] for n in range(len(bodies) - 1))
    assert text == f"note {len(bodies) - 1}"


async def test_notes_as_long_as_their_parts_come_to_an_end() -> None:
    model = writer(*[{"text": "long note " * 300} for _ in range(60)])
    text = await written(model, task(covered(40, "word " * 80)), trim_tokens_to_summarize=1_000)
    assert text
    assert len(model.requests) < 60


async def test_one_message_larger_than_a_call_is_parted() -> None:
    assert "".join(packed(["x" * 10_000], 1_000)).replace("\n", "") == "x" * 10_000
    assert packed(["鹿" * 50], 20) == ["鹿" * 19, "鹿" * 19, "鹿" * 12]
    assert packed([], 20) == []


@pytest.mark.parametrize("code", ["server", "timeout", "rate_limit", "auth", "context"])
async def test_a_failing_model_is_done_without(code: str) -> None:
    messages = [
        *covered(1, "The bridge is 120 m long."),
        calls("write_file", id="w", path="/mnt/user-data/outputs/bridge.md"),
        result("write_file", "Wrote /mnt/user-data/outputs/bridge.md"),
    ]
    text = await written(writer({"error": code}), task(messages, earlier="Before: fine."))
    assert text.startswith("Before: fine.\n")
    assert "- Answer 0." in text
    assert "120 m" in text
    assert "/mnt/user-data/outputs/bridge.md" in text
    assert "Ask 0" not in text, "the user's words are kept apart"


async def test_a_failure_in_one_of_many_parts_ends_the_others() -> None:
    model = writer(*[{"text": "n", "delay_ms": 60_000}] * 3, {"error": "auth"})
    async with asyncio.timeout(30):
        text = await written(model, task(covered(40, "word " * 80)), trim_tokens_to_summarize=1_000)
    assert "Answer 39." in text


@pytest.mark.parametrize("reply", ["", "<think>only thoughts</think>"])
async def test_an_empty_summary_is_none(reply: str) -> None:
    assert "Answer 0." in await written(writer({"text": reply}), task())


async def test_thinking_is_no_part_of_it() -> None:
    model = writer({"text": "<think>They want deer.</think>**Goal**: deer."})
    assert await written(model, task()) == "**Goal**: deer."


@pytest.mark.parametrize("sign", ["word ", "鹿", "line\n"])
async def test_it_is_bounded(sign: str) -> None:
    text = await written(writer({"text": sign * 20_000}), task(window=16_000))
    assert estimate_text(text) <= longest(16_000) + 2
    assert text.endswith("…")


async def test_without_a_model_the_newest_has_room() -> None:
    text = await written(None, task(covered(500), earlier="old " * 2_000))
    assert "Answer 499." in text
    assert text.startswith("old old")
    assert len(text) <= 3 * longest(32_000) + 2


async def test_nothing_said_is_said() -> None:
    assert await written(None, task([user("hi")])) == "(nothing to report)"


async def test_calls_are_counted_under_their_caller() -> None:
    run = run_context()
    await written(writer({"text": "ok", "usage": {"input": 900, "output": 100}}), task(), run)
    [entry] = usage_of(run)["entries"]
    assert (entry["model"], entry["caller"], entry["input"]) == ("writer", "summary", 900)
    assert entry["cost"] == {"EUR": 0.001}


async def test_after_a_kill_a_paid_summary_is_not_paid_again() -> None:
    run = run_context()
    assert await written(writer("first"), task(), run) == "first"
    again = run_context(storage=run.storage, resumed=True)
    model = writer("second")
    assert await written(model, task(), again) == "first"
    assert model.requests == []


async def test_an_own_prompt_may_place_the_transcript() -> None:
    model = writer("a", "b")
    await written(model, task(), summary_prompt="Sum up: {messages} Thanks.")
    await written(model, task(), summary_prompt="Sum up.")
    [placed], [system, body] = [r.messages for r in model.requests]
    assert placed.text.startswith("Sum up: # Transcript")
    assert placed.text.endswith(" Thanks.")
    assert system.text == "Sum up."
    assert "Ask 0" in body.text
