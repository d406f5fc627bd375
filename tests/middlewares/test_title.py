"""Row 24: a thread gets its name once, without a model call unless one is configured."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from deerflow.agent.context import RunContext
from deerflow.agent.deliverables import REMINDER
from deerflow.config.schema import TitleConfig
from deerflow.middlewares.title import TitleMiddleware, derived_title
from deerflow.models.scripted import ScriptedChatModel
from fakes.rows import events, run_context, user

ROW = TitleMiddleware(config=TitleConfig())


@pytest.fixture
async def run() -> RunContext:
    run = run_context()
    row = await run.storage.threads.ensure("ann", "t")
    run.thread_key = row.thread_key
    return run


def exchange(text: Any, answer: str = "Here you are.") -> dict[str, Any]:
    return {"messages": [user(text), AIMessage(answer, id="a")]}


async def test_state_thread_and_log_get_the_title(run: RunContext) -> None:
    update = await ROW.finish(exchange("Compare heat pumps for old houses in Norway please"), run)
    assert update == {"title": "Compare heat pumps for old houses…"}
    row = await run.storage.threads.get("ann", "t")
    assert row is not None
    assert row.title == update["title"]
    assert await events(run, "title") == [update]


async def test_a_title_is_given_once(run: RunContext) -> None:
    assert await ROW.finish({**exchange("another"), "title": "The first"}, run) is None
    assert await events(run, "title") == []


async def test_a_name_that_the_user_gave_stays(run: RunContext) -> None:
    run.title = "Mine"
    assert await ROW.finish(exchange("hi there"), run) == {"title": "Mine"}
    assert await events(run, "title") == []


async def test_it_can_be_switched_off(run: RunContext) -> None:
    off = TitleMiddleware(config=TitleConfig(enabled=False))
    assert await off.finish(exchange("hi"), run) is None


async def test_without_words_of_the_user_the_answer_names_the_thread(run: RunContext) -> None:
    image = [{"type": "image", "base64": "AA==", "mime_type": "image/png"}]
    state = exchange(image, "## A cat on a roof")
    assert await ROW.finish(state, run) == {"title": "A cat on a roof"}


async def test_our_own_reminder_names_no_thread(run: RunContext) -> None:
    reminder = HumanMessage("The task asks for x", additional_kwargs={REMINDER: True})
    assert await ROW.finish({"messages": [reminder]}, run) is None


async def test_a_configured_model_writes_it(run: RunContext) -> None:
    model = ScriptedChatModel(script=[{"text": '"Heat pumps"\n'}])
    row = TitleMiddleware(config=TitleConfig(model_name="m"), model=model)
    assert await row.finish(exchange("Compare heat pumps"), run) == {"title": "Heat pumps"}
    asked = str(model.requests[0].messages[0].content)
    assert "at most 6 words" in asked
    assert "User: Compare heat pumps" in asked


async def test_a_failing_model_costs_no_title(run: RunContext) -> None:
    model = ScriptedChatModel(script=[])
    row = TitleMiddleware(config=TitleConfig(model_name="m"), model=model)
    assert await row.finish(exchange("Compare heat pumps"), run) == {"title": "Compare heat pumps"}


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("hello", "hello"),
        ("# Report\n\nbody", "Report"),
        ("**Fix** the `bug` in [parser](http://x.y/z)!", "Fix the bug in parser!"),
        ("```python\nprint(1)\n```\nWhat does this do?", "What does this do?"),
        ("- first point\n- second", "first point"),
        ("> quoted\nanswer", "quoted"),
        ("snake_case_name stays", "snake_case_name stays"),
        ("2 * 3 = ?", "2 * 3 = ?"),
        ("Is v1.2 out? Tell me.", "Is v1.2 out?"),
        ("one two three four five six seven", "one two three four five six…"),
        ("x" * 100, "x" * 59 + "…"),
        ("请帮我分析一下这份年度销售报告。谢谢", "请帮我分析一下这份年度销售报告"),
        (
            "请帮我分析一下这份年度销售报告并且写出一份完整的总结给我看",
            "请帮我分析一下这份年度销售报告并且写出一…",
        ),
        ("今日の天気を教えて", "今日の天気を教えて"),
        ("用 Python 写一个排序算法", "用 Python 写一个排序算法"),
        ("hi\x1b[31m\u202e there\x00", "hi [31m there"),
        ("<b>bold</b> move", "bold move"),
        ("!!! ???", ""),
        ("   \n\t ", ""),
    ],
)
def test_a_title_is_the_beginning_of_what_is_said(text: str, title: str) -> None:
    assert derived_title(text) == title
    assert len(title) <= 60


def test_a_huge_request_is_not_read_whole() -> None:
    assert derived_title("*" * 3_000_000) == ""
    assert derived_title("[a](" * 500_000) != ""
