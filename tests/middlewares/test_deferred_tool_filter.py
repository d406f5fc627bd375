"""Row 11: hidden tools cost nothing until a search brings them in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from langchain_core.messages import ToolMessage

from deerflow.middlewares.deferred_tool_filter import ranked
from deerflow.runtime.request import RunRequest
from fakes.harness import scripted_harness, scripted_of
from fakes.rows import tool

CALL = {"name": "tool_search", "args": {"query": "weather in Berlin"}}


def hidden(name: str, about: str) -> Any:
    made = tool(name, deferred=True)
    made.description = about
    return made


TOOLS = (
    hidden("weather_forecast", "Tells the weather of a city."),
    hidden("stock_price", "Price of a share."),
    hidden("send_mail", "Sends mail."),
)


async def test_a_search_makes_the_best_matches_callable(tmp_path: Path) -> None:
    script = [{"calls": [CALL]}, {"calls": [{"name": "weather_forecast", "args": {}}]}, "Sunny."]
    section = {"enabled": True, "auto_promote_top_k": 1}
    async with scripted_harness(script, tmp_path, tools=TOOLS, tool_search=section) as harness:
        model = scripted_of(harness)
        first = await harness.runs.start(RunRequest("Weather?", thread_id="t"))
        result = await first.result()
    names = [set(asked.tool_names) for asked in model.requests]
    assert "tool_search" in names[0]
    assert not names[0] & {"weather_forecast", "stock_price", "send_mail"}
    assert "weather_forecast" in names[1]
    assert not names[1] & {"stock_price", "send_mail"}
    assert [m.text for m in result.messages if isinstance(m, ToolMessage)] == [
        "You can call these now:\n- weather_forecast: Tells the weather of a city.",
        "done",
    ]


async def test_a_search_without_a_match_names_what_there_is(tmp_path: Path) -> None:
    script = [{"calls": [{"name": "tool_search", "args": {"query": "xyzzy"}}]}, "None."]
    section = {"enabled": True}
    async with scripted_harness(script, tmp_path, tools=TOOLS, tool_search=section) as harness:
        result = await (await harness.runs.start(RunRequest("Find."))).result()
    [found] = [m.text for m in result.messages if isinstance(m, ToolMessage)]
    assert found == (
        "No further tool fits 'xyzzy'. There is: send_mail, stock_price, weather_forecast."
    )


async def test_without_hidden_tools_there_is_no_search(tmp_path: Path) -> None:
    async with scripted_harness(["Hi."], tmp_path, tool_search={"enabled": True}) as harness:
        model = scripted_of(harness)
        await (await harness.runs.start(RunRequest("Hi."))).result()
    assert "tool_search" not in model.requests[0].tool_names


def test_ranking_prefers_names_and_is_stable() -> None:
    found = [each.name for each in ranked("price of a stock", TOOLS)]
    assert found == ["stock_price", "weather_forecast"]
    assert ranked("send a mail", TOOLS)[0].name == "send_mail"
    assert ranked("天气", [hidden("tianqi", "查询城市天气")])
    assert ranked("", TOOLS) == []
