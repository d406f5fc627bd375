"""The public factory under a runner that is not ours."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from deerflow import make_lead_agent
from deerflow.errors import NotFoundError
from deerflow.factory import lead_agent

SCRIPT = [
    {
        "calls": [
            {"name": "write_file", "args": {"path": "/mnt/user-data/outputs/a.md", "content": "x"}}
        ]
    },
    {"calls": [{"name": "present_files", "args": {"paths": ["/mnt/user-data/outputs/a.md"]}}]},
    {"text": "Done."},
]


@pytest.fixture
def config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DEER_FLOW_HOME", str(tmp_path / "home"))
    path = tmp_path / "config.yaml"
    model = {"name": "s", "use": "deerflow.models.scripted:ScriptedChatModel", "script": SCRIPT}
    path.write_text(yaml.safe_dump({"models": [model], "sandbox": {"use": "memory"}}))
    return path


async def test_a_foreign_runner_gets_state_and_messages(config_file: Path) -> None:
    graph = make_lead_agent({"configurable": {"config_path": str(config_file)}})
    graph.checkpointer = InMemorySaver()
    config = {"configurable": {"thread_id": "t"}}
    state = await graph.ainvoke({"messages": [HumanMessage("Write a.md")]}, config)
    assert state["messages"][-1].content == "Done."
    assert state["artifacts"] == ["/mnt/user-data/outputs/a.md"]


def test_an_unknown_model_is_named(config_file: Path) -> None:
    asked = {"config_path": str(config_file), "model_name": "t"}
    with pytest.raises(NotFoundError, match="'t'"):
        make_lead_agent({"configurable": asked})


async def test_a_server_may_bring_a_context_of_its_own(config_file: Path) -> None:
    graph = await lead_agent({"configurable": {"config_path": str(config_file)}})
    graph.checkpointer = InMemorySaver()
    config = {"configurable": {"thread_id": "t"}}
    asked = {"messages": [HumanMessage("Write a.md")]}
    state = await graph.ainvoke(asked, config, context={"thread_id": "t", "mode": "pro"})
    assert state["messages"][-1].content == "Done."
