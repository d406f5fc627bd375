"""Tools with which the model keeps the memory itself."""

from __future__ import annotations

import pytest

from deerflow.config.agents import MemoryBackendConfig
from deerflow.errors import ToolError
from deerflow.memory.deermem.deermem import DeerMem
from deerflow.memory.inmemory import InMemoryStorage
from deerflow.memory.noop import NoopMemoryManager
from deerflow.memory.protocol import CATEGORIES, Source
from deerflow.tools.memory import memory_tools
from fakes.toolruns import ToolRun


@pytest.fixture
def memory() -> DeerMem:
    return DeerMem(InMemoryStorage(), None, MemoryBackendConfig())


@pytest.fixture
def call(memory: DeerMem) -> ToolRun:
    return ToolRun(None, memory_tools(memory))


async def test_add_search_update_forget(call: ToolRun, memory: DeerMem) -> None:
    assert await call("memory_search") == "Nothing is remembered about that."
    added = await call("memory_add", content="Likes tea", category="preference")
    (fact,) = await memory.search("u", "")
    assert added.startswith(f"Remembered: {fact.id} [preference] Likes tea (")
    assert fact.source == Source("t")

    assert await call("memory_search", query="which tea") == added.removeprefix("Remembered: ")
    assert await call("memory_search", query=None) == added.removeprefix("Remembered: ")

    changed = await call("memory_update", id=fact.id, content="Likes coffee", category="")
    (fact,) = (await memory.load("u")).current
    assert changed.startswith(f"Now remembered: {fact.id} [preference] Likes coffee (")
    await call("memory_update", id=fact.id, category="goal")
    (fact,) = (await memory.load("u")).current
    assert fact.category == "goal"

    assert await call("memory_forget", id=fact.id) == "Forgotten: Likes coffee"
    assert (await memory.load("u")).current == ()


async def test_the_user_is_the_one_of_the_run(call: ToolRun, memory: DeerMem) -> None:
    fact = await memory.add("somebody else", "Likes tea")
    assert await call("memory_search", query="tea") == "Nothing is remembered about that."
    for tool, args in (("memory_update", {"content": "x"}), ("memory_forget", {})):
        with pytest.raises(ToolError) as caught:
            await call(tool, id=fact.id, **args)
        assert "memory_search" in caught.value.cure
    assert (await memory.load("somebody else")).current == (fact,)


async def test_refusals_are_written_for_the_model(call: ToolRun, memory: DeerMem) -> None:
    fact = await memory.add("u", "Likes tea")
    with pytest.raises(ToolError, match="2,001 characters"):
        await call("memory_add", content="x" * 2001, category="goal")
    with pytest.raises(ToolError, match="Nothing is to be changed"):
        await call("memory_update", id=fact.id)
    nowhere = ToolRun(None, memory_tools(NoopMemoryManager()))
    with pytest.raises(ToolError, match="Nothing is remembered here"):
        await nowhere("memory_add", content="x", category="goal")


def test_schemas_are_small_and_name_the_categories(memory: DeerMem) -> None:
    tools = {tool.name: tool for tool in memory_tools(memory)}
    assert list(tools) == ["memory_search", "memory_add", "memory_update", "memory_forget"]
    schema = tools["memory_update"].tool_call_schema.model_json_schema()  # type: ignore[union-attr]
    assert schema["properties"]["category"]["enum"] == list(CATEGORIES)
    assert schema["required"] == ["id"]
    assert sum(len(str(t.tool_call_schema.model_json_schema())) for t in tools.values()) < 2_000  # type: ignore[union-attr]
