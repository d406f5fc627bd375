"""The place of row 6 in THE LIST."""

from __future__ import annotations

from datetime import UTC, datetime

from langchain_core.messages import AIMessage

from deerflow.config.schema import SummarizationConfig
from deerflow.middlewares.dangling_tool_call import DanglingToolCallMiddleware, is_legal
from deerflow.middlewares.dynamic_context import MARK, DynamicContextMiddleware
from deerflow.middlewares.summarization import SummarizationMiddleware
from fakes.catalogs import ScriptedCatalog
from fakes.rows import calls, run_context, turn, user


def _rows() -> tuple[SummarizationMiddleware, DynamicContextMiddleware]:
    catalog = ScriptedCatalog(main=[{"text": "**State**: well.", "times": 9}])
    config = SummarizationConfig.model_validate({"trigger": {"type": "messages", "value": 2}})
    clock = lambda: datetime(2030, 1, 2, tzinfo=UTC)  # noqa: E731
    return SummarizationMiddleware(config, catalog), DynamicContextMiddleware(now=clock)


async def test_summarization_beside_dynamic_context() -> None:
    messages = [
        user("one", id="u1", **{MARK: "2030-01-02"}),
        AIMessage("1", id="a1"),
        user("two", id="u2"),
        AIMessage("2", id="a2"),
        user("three", id="u3"),
    ]
    good, _ = await turn(list(_rows()), {"messages": messages}, run_context())
    bad, _ = await turn(list(_rows()[::-1]), {"messages": messages}, run_context())
    assert good is not None
    assert bad is not None
    assert sum(m.text.count("Today is") for m in good) == 1, "shown again after it was covered"
    assert not any("Today is" in m.text for m in bad), "inside row 7 the day is covered for good"


async def test_repair_comes_first() -> None:
    damaged = [
        user("one", id="u1"),
        calls("look", id="a1"),
        user("two", id="u2"),
        AIMessage("2", id="a2"),
        user("three", id="u3"),
    ]
    rows = [DanglingToolCallMiddleware(), _rows()[0]]
    good, reply = await turn(rows, {"messages": damaged}, run_context())
    assert good is not None
    assert is_legal(good)
    assert reply.update["compaction"]["upto"] == "a2"
