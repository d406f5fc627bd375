"""Row 25: one entry per finished run, of the user's words and the final visible answer."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage

from deerflow.agent.context import RunContext
from deerflow.agent.deliverables import REMINDER
from deerflow.agent.journal import LIMIT
from deerflow.agent.reply_edge import EMPTY, NOTE
from deerflow.config.agents import MemoryBackendConfig
from deerflow.memory.deermem.deermem import DeerMem
from deerflow.memory.deermem.queue import MemoryUpdateQueue
from deerflow.memory.deermem.updater import MemoryUpdater
from deerflow.memory.inmemory import InMemoryStorage
from deerflow.memory.noop import NoopMemoryManager
from deerflow.middlewares.clarification import MARK
from deerflow.middlewares.memory import MemoryMiddleware
from deerflow.storage.protocol import QueuedExchange
from fakes.extractor import Extractor
from fakes.rows import calls, events, result, run_context, user


@pytest.fixture
async def run() -> AsyncIterator[RunContext]:
    run = run_context()
    run.thread_key = (await run.storage.threads.ensure("ann", "t")).thread_key
    yield run


def row(run: RunContext) -> MemoryMiddleware:
    kept, config = InMemoryStorage(), MemoryBackendConfig()
    queue = MemoryUpdateQueue(run.storage.memory_queue, MemoryUpdater(Extractor()), kept, config)
    return MemoryMiddleware(DeerMem(kept, queue, config), clock=lambda: 5.0)


async def queued(run: RunContext, *messages: AnyMessage) -> list[QueuedExchange]:
    assert await row(run).finish({"messages": list(messages)}, run) is None
    return await run.storage.memory_queue.claim(now=0.0, force=True)


async def texts(run: RunContext, *messages: AnyMessage) -> tuple[str, str]:
    (entry,) = await queued(run, *messages)
    return entry.payload["user"], entry.payload["answer"]


def answer(text: str, id: str = "a9", **extra: Any) -> AIMessage:
    return AIMessage(content=text, id=id, additional_kwargs=extra)


async def test_words_and_final_answer_are_queued_without_tool_noise(run: RunContext) -> None:
    (entry,) = await queued(
        run,
        user("I live in Oslo. What is the weather?"),
        AIMessage("I look it up.", id="a1", tool_calls=calls("look").tool_calls),
        result("look", "a page of 10 kB"),
        answer("It rains."),
    )
    assert entry.payload == {
        "user": "I live in Oslo. What is the weather?",
        "answer": "It rains.",
        "message": "in-r1",
        "at": 5.0,
    }
    assert (entry.user_id, entry.thread_id, entry.thread_key) == ("ann", "t", run.thread_key)
    assert await events(run, "memory_queued") == [{"entry_id": entry.entry_id}]


async def test_a_finish_that_is_resumed_queues_and_tells_once(run: RunContext) -> None:
    state = {"messages": [user("I live in Oslo."), answer("Noted.")]}
    await row(run).finish(state, run)
    again = run_context(storage=run.storage, thread_key=run.thread_key, resumed=True)
    (told,) = await events(run, "memory_queued")
    again.completed.add(told["entry_id"])  # as a resume reads it off the log
    await row(again).finish(state, again)
    assert await run.storage.memory_queue.pending() == 1
    assert len(await events(run, "memory_queued")) == 1


async def test_only_the_newest_exchange_is_queued(run: RunContext) -> None:
    earlier = [user("I like tea.", id="in-r0"), answer("Fine.", id="a0")]
    assert await texts(run, *earlier, user("I live in Oslo."), answer("Noted.")) == (
        "I live in Oslo.",
        "Noted.",
    )


async def test_words_of_a_stopped_run_come_with_the_next_exchange(run: RunContext) -> None:
    stopped = [
        user("I am vegan. Find recipes.", id="in-r0"),
        calls("look", id="a0"),
        result("look"),
    ]
    before = [user("Hi", id="in-r"), answer("Hello", id="a")]
    words, _ = await texts(run, *before, *stopped, user("Go on, for two."), answer("Here."))
    assert words == "I am vegan. Find recipes.\n\nGo on, for two."


async def test_the_answer_to_a_question_comes_with_the_question(run: RunContext) -> None:
    question = {"question": "Metric or imperial?", "options": [], "context": ""}
    asked = [
        user("Make a chart.", id="in-r0"),
        calls("ask_clarification", "look", id="a0"),
        result("ask_clarification", **{"additional_kwargs": {MARK: question}}),
        result("look"),
    ]
    words, _ = await texts(run, *asked, user("Metric, always."), answer("Done."))
    assert words == "(Asked by the assistant: Metric or imperial?)\n\nMetric, always."


async def test_a_question_that_ends_the_run_is_its_answer(run: RunContext) -> None:
    question = {"question": "Metric or imperial?", "options": [], "context": ""}
    words, reply = await texts(
        run,
        user("I make charts for my boss."),
        calls("ask_clarification", id="a0"),
        result("ask_clarification", **{"additional_kwargs": {MARK: question}}),
    )
    assert (words, reply) == ("I make charts for my boss.", "Metric or imperial?")


@pytest.mark.parametrize("extra", [{EMPTY: True}, {LIMIT: {"rule": "max_turns"}}])
async def test_notes_of_ours_are_no_answer(run: RunContext, extra: dict[str, Any]) -> None:
    last = answer(NOTE, **extra)
    assert await texts(run, user("I live in Oslo."), last) == ("I live in Oslo.", "")


async def test_reminders_and_other_frames_are_no_words_of_the_user(run: RunContext) -> None:
    reminder = user("Write report.md now.", id="x", **{REMINDER: True})
    words, reply = await texts(
        run, user("I live in Oslo."), answer("Hm.", id="a1"), reminder, answer("Done.")
    )
    assert (words, reply) == ("I live in Oslo.", "Done.")


async def test_text_parts_count_and_images_do_not(run: RunContext) -> None:
    parts = [
        {"type": "text", "text": "This is my dog Rex."},
        {"type": "image", "base64": "A" * 100_000, "mime_type": "image/png"},
    ]
    words, _ = await texts(run, user(parts), answer("Cute."))
    assert words == "This is my dog Rex."


async def test_huge_texts_are_cut_before_they_are_queued(run: RunContext) -> None:
    words, reply = await texts(run, user("I " + "x" * 10_000_000), answer("y" * 1_000_000))
    assert len(words) + len(reply) <= 10_000


@pytest.mark.parametrize("text", ["Thank you!", "", "继续"])
async def test_nothing_to_learn_is_neither_queued_nor_told(run: RunContext, text: str) -> None:
    assert await queued(run, user(text), answer("You are welcome.")) == []
    assert await events(run, "memory_queued") == []


async def test_without_a_request_nothing_is_queued(run: RunContext) -> None:
    assert await queued(run) == []
    assert await queued(run, answer("Hm.")) == []


async def test_a_memory_that_forgets_tells_nothing(run: RunContext) -> None:
    forgets = MemoryMiddleware(NoopMemoryManager())
    await forgets.finish({"messages": [user("I live in Oslo."), answer("Noted.")]}, run)
    assert await events(run, "memory_queued") == []
