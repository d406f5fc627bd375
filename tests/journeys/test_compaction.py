"""Long conversations through the whole harness: what the user stated reaches the last request."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from langchain_core.messages import AnyMessage

from conftest import Scale
from deerflow.config.schema import AppConfig
from deerflow.models.scripted import ScriptedChatModel
from deerflow.runtime.request import RunRequest, RunResult
from deerflow.wiring.harness import Harness, open_harness
from fakes.harness import SCRIPTED, loaded
from fakes.terminal import Desk

CHATTER = "Thank you, that was good to read. I had a look at it over coffee. Tell me more please. "
RULES = (
    "The report must never be longer than {n} pages.",
    "Correction: the herd has {n} animals, not {m}.",
    "Always write numbers like {n} with a unit",
    "Budget for item {n}: at most {m} €.",
    "第{n}章不要超过{m}字。",
    "第{n}个标题应该是“鹿{m}”。",
    "Absatz {n} darf höchstens {m} Wörter haben.",
    "Il ne faut jamais plus de {n} images à la page {m}.",
    "use source {n} instead of source {m} :-)",
)


def rule(number: int) -> str:
    return RULES[number % len(RULES)].format(n=1000 + number, m=5000 + number)


def said(number: int) -> str:
    """A message of the user; every fourth states a limit, at its start, middle or end."""
    if number % 4:
        return f"Now part {number} of the story. " + CHATTER
    stated = rule(number)
    if not stated.endswith((".", "。", ")")):
        stated += "."
    places = (f"{stated}\n{CHATTER}", f"{CHATTER * 3}\n{stated}\n{CHATTER * 3}", CHATTER + stated)
    return places[number // 4 % 3]


def config(lead: list[Any], database: str = "memory", **summarization: Any) -> AppConfig:
    models = [
        {"name": "lead", "use": SCRIPTED, "context_window": 8000, "script": lead},
        {
            "name": "writer",
            "use": SCRIPTED,
            "script": [{"text": "**State**: the story goes on.", "times": 100_000}],
        },
    ]
    return AppConfig.model_validate(
        {
            "models": models,
            "database": {"backend": database},
            "sandbox": {"use": "memory"},
            "memory": {"enabled": False},
            "summarization": {"model_name": "writer", **summarization},
        }
    )


async def ask(harness: Harness, task: str) -> RunResult:
    return await (await harness.runs.start(RunRequest(task=task, thread_id="t"))).result()


async def compactions(harness: Harness) -> list[dict[str, Any]]:
    thread = await harness.storage.threads.get("local", "t")
    assert thread is not None
    log = await harness.storage.events.read(thread.thread_key)
    return [event.payload for event in log if event.type == "compacted"]


def scripted(harness: Harness, name: str = "lead") -> ScriptedChatModel:
    model: Any = harness.catalog.get(name)
    return getattr(model, "inner", model)


def text_of(messages: list[AnyMessage] | list[Any]) -> str:
    return "\n".join(message.text for message in messages)


async def test_two_hundred_turns_keep_every_limit_word_for_word(
    tmp_path: Path, scale: Scale
) -> None:
    turns = scale(200, 600)
    answer = "Here is the next part, as you like it: the deer went on through the snow. "
    async with open_harness(
        loaded(config([{"text": answer * 2, "times": turns}]), tmp_path), {}
    ) as harness:
        for number in range(turns):
            result = await ask(harness, said(number))
            assert result.status == "success"
        told = await compactions(harness)
        request = text_of(scripted(harness).requests[-1].messages)
        sent = len(scripted(harness).requests[-1].messages)
    assert len(told) >= 5, "the window is small: it must have been compacted many times"
    assert all(one["tokens_after"] < one["tokens_before"] for one in told)
    assert sent < 100
    stated = [rule(number) for number in range(0, turns, 4)]
    assert [(one, request.count(one)) for one in stated if request.count(one) != 1] == []
    assert said(turns - 1).strip() in request
    assert request.count("over coffee") < turns / 2, "what is no limit had to make room"


async def test_the_stored_conversation_stays_whole(tmp_path: Path) -> None:
    async with open_harness(
        loaded(config([{"text": "So be it. " * 60, "times": 60}]), tmp_path), {}
    ) as harness:
        for number in range(60):
            await ask(harness, said(number))
        told = await compactions(harness)
        thread = await harness.storage.threads.get("local", "t")
        assert thread is not None
        log = await harness.storage.events.read(thread.thread_key)
        texts = [e.payload["message"]["content"] for e in log if e.type == "message"]
    assert len(told) >= 2
    assert [text for text in texts if not text.startswith("So be it.")] == [
        said(number) for number in range(60)
    ]
    assert len(texts) == 120


async def test_what_is_covered_can_be_read_again(tmp_path: Path) -> None:
    where = "/mnt/user-data/workspace/.history"
    script = [
        *({"text": f"Fact {n}: deer {n} weighs {n} kg. " + "Well. " * 150} for n in range(40)),
        {"calls": [{"name": "grep", "args": {"pattern": "Fact 3:", "path": where}}]},
        {"calls": [{"name": "ls", "args": {"path": "/mnt/user-data/workspace"}}]},
        {"calls": [{"name": "read_file", "args": {"path": f"{where}/1.md"}}]},
        {"text": "Deer 3 weighs 3 kg."},
    ]
    async with open_harness(loaded(config(script), tmp_path), {}) as harness:
        for number in range(40):
            await ask(harness, f"And deer {number}?")
        result = await ask(harness, "What did deer 3 weigh?")
        request = scripted(harness).requests[40].messages
    found, listed, read = [m.text for m in result.messages if m.type == "tool"]
    assert f"{where}/1.md" in text_of(request)
    assert "Fact 3: deer 3 weighs 3 kg." in found
    assert ".history" not in listed
    assert "## User\n\nAnd deer 0?" in read
    assert read.startswith("<untrusted-content")
    assert result.artifacts == ()


async def test_compact_on_request(tmp_path: Path) -> None:
    script = [{"text": f"Answer {n}. " + "Deer like grass. " * 20} for n in range(6)]
    async with open_harness(loaded(config(script), tmp_path), {}) as harness:
        first = await ask(harness, "/compact")
        for number in range(5):
            await ask(harness, f"Question {number}?")
        done = await ask(harness, "/compact keep the API names")
        told = await compactions(harness)
        hint = text_of(scripted(harness, "writer").requests[-1].messages)
        after = await ask(harness, "Go on.")
        request = scripted(harness).requests[-1].messages
    assert first.text == "Nothing to compact: the conversation has 0 messages so far."
    assert done.text.startswith("Compacted: 8 messages → a summary of 5 words; about ")
    assert (done.status, done.outcome and done.outcome.kind) == ("success", "answered")
    assert [one["manual"] for one in told] == [True]
    assert "The user asks to keep above all: keep the API names" in hint
    assert after.text.startswith("Answer 5.")
    seen = text_of(request)
    assert "compact keep" not in seen
    assert "Nothing to compact" not in seen
    assert "Compacted:" not in seen
    assert [seen.count(f"Question {number}?") for number in range(5)] == [1] * 5
    assert "Answer 4." in seen, "the last exchange stays"
    assert "Answer 0." not in seen


async def test_the_command_is_no_task_no_memory_and_no_step_towards_a_goal(tmp_path: Path) -> None:
    script = [{"text": "Deer like grass. " * 20}, {"text": "More."}, {"text": "MORE"}]
    made = config([*script, {"error": "script"}]).model_copy(
        update={"memory": AppConfig.model_validate({"memory": {"enabled": True}}).memory}
    )
    async with open_harness(loaded(made, tmp_path), {}) as harness:
        await ask(harness, "One?")
        await ask(harness, "Two?")
        thread = await harness.storage.threads.get("local", "t")
        assert thread is not None
        before = len(await harness.storage.events.read(thread.thread_key))
        request = RunRequest(task="/compact keep what is for report.md", thread_id="t", goal="Win")
        done = await (await harness.runs.start(request)).result()
        log = (await harness.storage.events.read(thread.thread_key))[before:]
        assert scripted(harness).remaining == 2, "no judge and no further turn"
    assert done.outcome is not None
    assert done.outcome.kind == "answered"
    assert done.text.startswith("Compacted: 2 messages")
    assert "memory_queued" not in [event.type for event in log]


async def test_compact_is_stored_and_found_by_the_next_process(tmp_path: Path) -> None:
    script = [{"text": f"Answer {n}. " + "Deer like grass. " * 20} for n in range(6)]
    made = config(script, database="sqlite")
    async with open_harness(loaded(made, tmp_path), {}) as harness:
        for number in range(5):
            await ask(harness, f"Question {number}?")
        await ask(harness, "/compact")
    async with open_harness(loaded(made, tmp_path), {}) as harness:
        await ask(harness, "Go on.")
        request = text_of(scripted(harness).requests[-1].messages)
    assert request.count("<earlier-conversation>") == 1
    assert request.count("**State**: the story goes on.") == 1
    assert request.count("Question 0?") == 1


async def test_compact_from_the_command_line(tmp_path: Path) -> None:
    script = [{"text": f"Answer {n}. " + "Deer like grass. " * 20} for n in range(4)]
    home = tmp_path / ".deer-flow"
    async with open_harness(loaded(config(script, database="sqlite"), home), {}) as harness:
        for number in range(4):
            await ask(harness, f"Question {number}?")
    desk = Desk(tmp_path)
    desk.write([{"text": "**State**: talk of deer."}])
    try:
        done = await asyncio.to_thread(desk.run, "run", "/compact", "--thread", "t")
    finally:
        desk.close()
    assert done.code == 0, done.err
    assert done.out.startswith("Compacted: 6 messages → a summary of 4 words")
