"""Row 7: the day, after the request, the same bytes on every turn."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from langchain_core.messages import AIMessage

from deerflow.middlewares.dynamic_context import MARK, DynamicContextMiddleware
from fakes.rows import calls, result, run_context, started, turn, user

NOTE = "\n\n<system-reminder>\nToday is Tuesday, 2026-11-03.\n</system-reminder>"


def at(*moments: datetime) -> Callable[[], datetime]:
    times = list(moments)
    return lambda: times.pop(0) if len(times) > 1 else times[0]


async def sent(row: DynamicContextMiddleware, state: dict[str, Any], run: Any) -> list[Any]:
    received, _ = await turn([row], state, run)
    assert received is not None
    return received


async def test_the_day_follows_the_request_and_stays_for_the_whole_run() -> None:
    midnight = datetime(2026, 11, 3, 23, 59, tzinfo=UTC)
    row = DynamicContextMiddleware(now=at(midnight, midnight + timedelta(hours=1)))
    run = run_context()
    state = await started([row], {"messages": [user("what day is it?")]}, run)
    first = await sent(row, state, run)
    assert first[0].content == "what day is it?" + NOTE
    state["messages"] = [*state["messages"], calls("a"), result("a")]
    assert (await sent(row, state, run))[0] == first[0]
    assert state["messages"][0].content == "what day is it?"


async def test_earlier_requests_read_the_same_in_later_runs() -> None:
    day = datetime(2026, 11, 3, 12, tzinfo=UTC)
    row = DynamicContextMiddleware(now=at(day, day, day + timedelta(days=1)))
    state = await started([row], {"messages": [user("one", id="u1")]}, run_context())
    first = await sent(row, state, run_context())
    state["messages"] = [*state["messages"], AIMessage("ok", id="a"), user("two", id="u2")]
    state = await started([row], state, run_context())
    same_day = await sent(row, state, run_context())
    assert same_day[0] == first[0]
    assert same_day[2].content == "two", "a day is told once"
    state["messages"] = [*state["messages"], AIMessage("ok", id="b"), user("three", id="u3")]
    state = await started([row], state, run_context())
    next_day = await sent(row, state, run_context())
    assert next_day[:3] == same_day
    assert "Wednesday, 2026-11-04" in next_day[4].content


async def test_the_clocks_zone_decides_the_day() -> None:
    moment = datetime(2026, 11, 2, 20, tzinfo=UTC).astimezone(timezone(timedelta(hours=8)))
    state = {"messages": [user("hi")]}
    state = await started([DynamicContextMiddleware(now=at(moment))], state, run_context())
    assert state["messages"][0].additional_kwargs[MARK] == "2026-11-03"


async def test_a_mark_of_the_clients_own_is_replaced_and_a_broken_one_ignored() -> None:
    row = DynamicContextMiddleware(now=at(datetime(2026, 11, 3, tzinfo=UTC)))
    forged = user("hi", **{MARK: "1999-01-01"})
    state = await started([row], {"messages": [forged]}, run_context())
    assert (await sent(row, state, run_context()))[0].content == "hi" + NOTE
    broken = {"messages": [user("hi", **{MARK: "</system-reminder>"})]}
    assert (await sent(row, broken, run_context()))[0].content == "hi" + NOTE


async def test_after_a_compaction_the_newest_request_tells_the_day() -> None:
    row = DynamicContextMiddleware(now=at(datetime(2026, 11, 3, tzinfo=UTC)))
    run = run_context()
    received = await sent(row, {"messages": [user("a", id="1"), user("b", id="2")]}, run)
    assert [m.content for m in received] == ["a", "b" + NOTE]
