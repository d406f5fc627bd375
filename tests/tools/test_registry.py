"""Which tools there are, what their schemas cost, and how configured ones are loaded."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import orjson
import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, StructuredTool, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
from typing_extensions import TypedDict

from deerflow.config.schema import SandboxConfig, ToolConfig
from deerflow.errors import ConfigError
from deerflow.sandbox.inmemory import InMemoryProvider
from deerflow.sandbox.protocol import ThreadFolders
from deerflow.tools.limits import ToolLimits
from deerflow.tools.protocol import ToolContext
from deerflow.tools.registry import builtin_tools, get_available_tools
from fakes.toolruns import ToolRun

HERE = __name__


@tool
def plain(x: int) -> int:
    """A tool that is there."""
    return x + 1


def factory(*, greeting: str = "hi") -> BaseTool:
    async def greet(name: str) -> str:
        return f"{greeting} {name}"

    return StructuredTool.from_function(coroutine=greet, name="greet", description="Greet.")


class Tools:
    number = 5


def entry(name: str, use: str, **extra: Any) -> ToolConfig:
    return ToolConfig.model_validate({"name": name, "use": use, **extra})


def test_the_default_schemas_are_golden_and_small(golden: Callable[[str, str], None]) -> None:
    schemas = [convert_to_openai_tool(tool) for tool in get_available_tools()]
    golden("tool_schemas.json", json.dumps(schemas, indent=1, ensure_ascii=False) + "\n")
    assert len(orjson.dumps(schemas)) <= 4000
    text = json.dumps(schemas)
    assert '"title"' not in text
    assert '"default"' not in text


def test_names_and_marks() -> None:
    marks = {tool.name: (tool.metadata or {})["deerflow"] for tool in builtin_tools()}
    assert list(marks) == [
        "bash",
        "python",
        "ls",
        "glob",
        "grep",
        "read_file",
        "write_file",
        "str_replace",
        "view_image",
        "present_files",
        "ask_clarification",
        "write_todos",
        "calculator",
    ]
    assert {name for name, mark in marks.items() if not mark.get("idempotent")} == {
        "bash",
        "python",
        "write_file",
        "str_replace",
    }
    assert {name for name, mark in marks.items() if not mark.get("sandbox")} == {
        "ask_clarification",
        "write_todos",
        "calculator",
    }
    assert [name for name, mark in marks.items() if mark.get("ends_run")] == ["ask_clarification"]


def test_models_without_vision_have_no_view_image() -> None:
    names = [tool.name for tool in get_available_tools(vision=False)]
    assert "view_image" not in names
    assert len(names) == 12


def test_limits_come_from_the_sandbox_section() -> None:
    config = SandboxConfig(read_file_output_max_chars=7, ls_output_max_chars=9)
    assert ToolLimits.of(config) == ToolLimits(7, 9)


async def test_configured_tools_follow_in_order() -> None:
    config = (
        entry("greet", f"{HERE}:factory", greeting="salut"),
        entry("increment", f"{HERE}:plain", group="math"),
        entry("bash", "builtin:bash", group="shell"),
    )
    tools = get_available_tools(config)
    assert [tool.name for tool in tools[13:]] == ["greet", "increment"]
    assert await tools[13].ainvoke({"name": "界"}) == "salut 界"
    assert plain.name == "plain"
    assert [tool.name for tool in get_available_tools(config, groups=("web",))[13:]] == ["greet"]
    assert len(get_available_tools(config, groups=("math",))) == 15


def test_only_configured_tools_are_hidden_until_searched() -> None:
    config = (entry("increment", f"{HERE}:plain"),)
    hidden = get_available_tools(config, deferred=True)
    assert [tool.name for tool in hidden if marks(tool).get("deferred")] == ["increment"]
    assert not any(marks(tool).get("deferred") for tool in get_available_tools(config))
    assert plain.metadata is None, "the tool itself stays as it is"


def marks(tool: BaseTool) -> dict[str, Any]:
    return dict((tool.metadata or {}).get("deerflow", {}))


def test_every_bad_entry_is_named_at_once() -> None:
    config = (
        entry("bash", f"{HERE}:plain"),
        entry("a", "no_such_module_x:tool"),
        entry("b", f"{HERE}:missing"),
        entry("c", f"{HERE}:Tools.number"),
        entry("d", "only_a_name"),
        entry("e", "builtin:bsh"),
        entry("f", f"{HERE}:factory", unknown=1),
        entry("greet", f"{HERE}:plain"),
        entry("greet", f"{HERE}:plain"),
        entry("view_image", f"{HERE}:plain"),
    )
    with pytest.raises(ConfigError) as caught:
        get_available_tools(config, vision=False)
    problems = caught.value.problems
    assert [problem.split(":")[0] for problem in problems] == [
        "tools[0] (bash)",
        "tools[1] (a)",
        "tools[2] (b)",
        "tools[3] (c)",
        "tools[4] (d)",
        "tools[5] (e)",
        "tools[6] (f)",
        "tools[8] (greet)",
        "tools[9] (view_image)",
    ]
    assert "did you mean bash?" in problems[5]
    assert "not a LangChain tool" in problems[3]


class State(TypedDict):
    messages: Annotated[list[Any], add_messages]
    files_read: dict[str, str]


async def test_they_run_in_langgraphs_own_tool_node(tmp_path: Any) -> None:
    """The stock path, which tracing takes: runtime injected, updates applied."""
    sandbox = await InMemoryProvider().acquire("k", ThreadFolders(tmp_path))
    run = ToolRun(sandbox)
    graph = StateGraph(State, context_schema=ToolContext)
    graph.add_node("tools", ToolNode(builtin_tools()))
    graph.add_edge(START, "tools")
    graph.add_edge("tools", END)
    call = {"name": "write_file", "args": {"path": "f", "content": "x"}, "id": "1"}
    shell = {"name": "bash", "args": {"command": "echo hi"}, "id": "2"}
    state = await graph.compile().ainvoke(
        {"messages": [AIMessage("", tool_calls=[call, shell])], "files_read": {}},
        context=run.context,
    )
    assert [message.content for message in state["messages"][1:]] == [
        "Wrote 1 line; /mnt/user-data/workspace/f has 1 bytes.",
        "hi",
    ]
    assert list(state["files_read"]) == ["/mnt/user-data/workspace/f"]
