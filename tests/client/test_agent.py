"""The library: an agent with own model, tools, helpers, memory and goal, without a server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage

from deerflow import Agent, Memory, ScriptedChatModel, SessionGoal, Skill, SubAgent
from deerflow.config.schema import AppConfig
from deerflow.errors import UsageError
from fakes.harness import SCRIPTED


def config(**sections: Any) -> AppConfig:
    """In-memory stores, no extraction of memories."""
    raw = {
        "database": {"backend": "memory"},
        "sandbox": {"use": "memory"},
        "memory": {"enabled": False},
        **sections,
    }
    return AppConfig.model_validate(raw)


def scripted(*turns: Any) -> ScriptedChatModel:
    return ScriptedChatModel(script=list(turns))


def agent(home: Path, *turns: Any, **facts: Any) -> Agent:
    return Agent(model=scripted(*turns), home=home, **{"config": config(), **facts})


def double(number: int) -> int:
    """Twice a number."""
    return 2 * number


async def test_a_task_in_a_result_out(tmp_path: Path) -> None:
    result = await agent(tmp_path, "Four.").run("2 + 2?")
    assert result.text == "Four."
    assert [message.type for message in result.messages] == ["human", "ai"]
    assert result.outcome is not None
    assert result.outcome.kind == "answered"
    assert result.artifacts == ()
    assert result.usage["total"]["calls"] == 1


async def test_prompt_is_another_name_of_the_task(tmp_path: Path) -> None:
    assert (await agent(tmp_path, "Yes.").run(prompt="Sure?")).text == "Yes."
    with pytest.raises(UsageError, match="two names"):
        await agent(tmp_path, "Yes.").run("Sure?", prompt="Sure?")
    with pytest.raises(UsageError, match="empty"):
        await agent(tmp_path, "Yes.").run()


def test_the_sync_door(tmp_path: Path) -> None:
    assert agent(tmp_path, "Hi.").run_sync("Hello").text == "Hi."


async def test_the_sync_door_is_shut_on_a_running_loop(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="await agent.run"):
        agent(tmp_path, "Hi.").run_sync("Hello")


async def test_own_functions_are_tools(tmp_path: Path) -> None:
    call = {"calls": [{"name": "double", "args": {"number": 21}}]}
    made = agent(tmp_path, call, "42.", tools=["sandbox-python", double])
    result = await made.run("Double 21.")
    assert [m.text for m in result.messages if isinstance(m, ToolMessage)] == ["42"]
    model: Any = made.model
    offered = set(model.requests[0].tool_names)
    assert {"python", "double", "task"} <= offered
    assert not offered & {"bash", "write_file"}


async def test_the_stream_is_the_log(tmp_path: Path) -> None:
    types = [event.type async for event in agent(tmp_path, "Hi.").stream("Hello")]
    assert types[0] == "run_started"
    assert types[-1] == "run_ended"


async def test_leaving_the_stream_stops_the_run(tmp_path: Path) -> None:
    slow = {"text": "word " * 50, "gap_ms": 20}
    async with agent(tmp_path, slow) as made:
        stream = made.stream("Speak.", thread_id="t")
        async for event in stream:
            if event.type == "model_started":
                break
        await stream.aclose()
        assert made.harness is not None
        thread = await made.harness.storage.threads.get("local", "t")
        assert thread is not None
        [run] = await made.harness.storage.threads.runs(thread.thread_key)
    assert run.status == "cancelled"


async def test_an_open_agent_keeps_its_threads(tmp_path: Path) -> None:
    async with agent(tmp_path, "One.", "Two.") as made:
        await made.run("First?", thread_id="t")
        await made.run("Second?", thread_id="t")
        model: Any = made.model
    texts = [message.text for message in model.requests[1].messages]
    assert any("First?" in text for text in texts)


async def test_name_and_prompt_reach_the_model(tmp_path: Path) -> None:
    made = agent(tmp_path, "Aye.", name="Ahab", prompt="Speak of whales.")
    await made.run("Hello")
    model: Any = made.model
    system = model.requests[0].messages[0].text
    assert system.startswith("You are Ahab,")
    assert "Speak of whales." in system


async def test_a_sub_agent_has_its_own_model_and_tools(tmp_path: Path) -> None:
    ask = {"description": "double it", "prompt": "Double 4.", "subagent_type": "doubler"}
    child = scripted({"calls": [{"name": "double", "args": {"number": 4}}]}, "Eight.")
    helper = SubAgent("doubler", "Doubles numbers.", model=child, tools=[double], prompt="Be fast.")
    made = agent(tmp_path, {"calls": [{"name": "task", "args": ask}]}, "8.", sub_agents=[helper])
    result = await made.run("Double 4, please.")
    assert result.text == "8."
    assert [m.text for m in result.messages if isinstance(m, ToolMessage)] == ["Eight."]
    assert child.requests[0].tool_names == ["double"]
    assert "Be fast." in child.requests[0].messages[0].text
    model: Any = made.model
    assert "double" not in model.requests[0].tool_names


def delegating(kind: str) -> dict[str, Any]:
    """A turn that hands work to a kind of child."""
    ask = {"description": "do it", "prompt": "Do it.", "subagent_type": kind}
    return {"calls": [{"name": "task", "args": ask}]}


async def test_a_sub_agent_has_its_own_skills(tmp_path: Path) -> None:
    skills(tmp_path)
    load = {"calls": [{"name": "load_skill", "args": {"name": name}} for name in ("alpha", "beta")]}
    child = scripted(load, "Done.")
    helper = SubAgent("limited", model=child, skills=["beta"])
    result = await agent(tmp_path, delegating("limited"), "8.", sub_agents=[helper]).run("Go.")
    assert result.text == "8."
    system = child.requests[0].messages[0].text
    assert "- beta: About beta." in system and "alpha" not in system
    refused, loaded = child.requests[1].messages[-2:]
    assert "There is no skill 'alpha' for this agent" in refused.text
    assert "About beta." in loaded.text


async def test_sub_agents_keep_the_limits_of_the_configuration(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    limits = config(subagents={"max_turns": 3, "timeout_seconds": 7})
    helper = SubAgent("doubler", tools=[double])
    async with agent(tmp_path, "Hi.", config=limits, sub_agents=[helper]) as made:
        assert made.harness is not None
        spec = made.harness.agents.roster.get("doubler")
    assert spec is not None
    assert (spec.max_turns, spec.timeout_seconds) == (3, 7)
    assert "goes without" not in caplog.text, "its own function is there"


async def test_helpers_and_tools_that_cannot_be_told_apart_are_refused(tmp_path: Path) -> None:
    def other(number: int) -> int:
        """Thrice a number."""
        return 3 * number

    other.__name__ = "double"
    for names, told in ((["a", "a"], "Two sub-agents"), ([""], "no name"), ([" a"], "no name")):
        with pytest.raises(UsageError, match=told):
            await agent(tmp_path, "Hi.", sub_agents=[SubAgent(name) for name in names]).run("Go.")
    for lead, first, second in ((None, double, other), ([double], None, other)):
        helpers = [SubAgent("a", tools=first and [first]), SubAgent("b", tools=[second])]
        with pytest.raises(UsageError, match="called 'double'"):
            await agent(tmp_path, "Hi.", tools=lead, sub_agents=helpers).run("Go.")
    helpers = [SubAgent("a", tools=[double]), SubAgent("b", tools=[double])]
    await agent(tmp_path, "Hi.", tools=[double], sub_agents=helpers).run("Go.")


@pytest.mark.parametrize(
    ("kind", "tools", "offered"),
    [
        ("general-purpose", None, {"python", "double"}),
        ("bash", None, {"python"}),
        ("own", None, {"python", "double"}),
        ("own", ["bash"], {"bash"}),
    ],
)
async def test_children_have_no_tool_that_the_agent_goes_without(
    tmp_path: Path, kind: str, tools: Any, offered: set[str]
) -> None:
    made = agent(
        tmp_path, delegating(kind), "Child.", "Done.",
        tools=["python", double], sub_agents=[SubAgent("own", tools=tools)],
    )  # fmt: skip
    await made.run("Go.")
    model: Any = made.model
    assert set(model.requests[1].tool_names) == offered


def skills(home: Path) -> None:
    """Two skills of a home."""
    for name in ("alpha", "beta"):
        folder = home / "skills" / "public" / name
        folder.mkdir(parents=True)
        header = f"---\nname: {name}\ndescription: About {name}.\n---\nText."
        (folder / "SKILL.md").write_text(header)


async def test_only_named_skills_are_offered(tmp_path: Path) -> None:
    skills(tmp_path)
    made = agent(tmp_path, "Ok.", skills=[Skill("beta")])
    await made.run("Go.")
    model: Any = made.model
    system = model.requests[0].messages[0].text
    assert "- beta: About beta." in system
    assert "alpha" not in system


async def test_uploads_and_artifacts(tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("hello")
    write = {"path": "/mnt/user-data/outputs/out.md", "content": "hi"}
    turns = [{"calls": [{"name": "write_file", "args": write}]}, "Done."]
    made = agent(tmp_path / "home", *turns, config=config(sandbox={"use": "host"}))
    result = await made.run("Copy note.txt to out.md", uploads=[note])
    [artifact] = result.artifacts
    assert artifact.path == "/mnt/user-data/outputs/out.md"
    assert artifact.host.read_text() == "hi"


async def test_a_configured_model_by_name(tmp_path: Path) -> None:
    models = [{"name": "main", "use": SCRIPTED, "script": ["From main."]}]
    made = Agent(model="main", home=tmp_path, config=config(models=models))
    assert (await made.run("Hi")).text == "From main."


async def test_memory_of_the_callers_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    memory = Memory(tmp_path / "kept")
    await memory.store("favourite", "red deer")
    made = agent(tmp_path, "Red deer.", "nothing")
    await made.run("My favourite?", memory=memory)
    model: Any = made.model
    assert "favourite: red deer" in model.requests[0].messages[-1].text


async def test_a_cancelled_caller_stops_the_run(tmp_path: Path) -> None:
    async with agent(tmp_path, {"text": "word " * 50, "gap_ms": 50}) as made:
        work = asyncio.create_task(made.run("Speak.", thread_id="t"))
        assert made.harness is not None
        storage = made.harness.storage
        thread = await storage.threads.ensure("local", "t")
        async for event in storage.events.follow(thread.thread_key):
            if event.type == "model_started":
                break
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        [run] = await storage.threads.runs(thread.thread_key)
    assert run.status == "cancelled"


async def test_the_number_of_continuations_is_kept(tmp_path: Path) -> None:
    go_on = {"text": '{"verdict": "continue", "reason": "more"}'}
    made = agent(tmp_path, "One.", go_on, "Two.", go_on, goal=SessionGoal("All", 1))
    result = await made.run("Go.")
    assert result.goal is not None
    assert (result.goal["status"], result.goal["max_continuations"]) == ("exhausted", 1)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"prompt": "a\ud800"}, "The prompt of the agent holds signs"),
        ({"name": "a\0"}, "The name of the agent holds signs"),
        ({"skills": "verse"}, r"Write: \['verse'\]"),
        ({"sub_agents": [SubAgent("a", prompt="\ud800")]}, "The sub-agent 'a' holds signs"),
        ({"sub_agents": [SubAgent("a", max_attempts=0)]}, "has no attempt"),
    ],
)
async def test_facts_that_no_run_can_use_are_refused(
    tmp_path: Path, facts: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        await agent(tmp_path, "Hi.", **facts).run("Hello")


async def test_an_open_agent_is_not_opened_again(tmp_path: Path) -> None:
    async with agent(tmp_path, "Hi.") as made:
        opened = made.harness
        with pytest.raises(UsageError, match="open already"):
            await made.__aenter__()
        assert made.harness is opened
        assert (await made.run("Hello")).text == "Hi."
    async with made:
        assert made.harness is not None


async def test_an_agent_that_could_not_be_opened_can_be_opened_later(tmp_path: Path) -> None:
    made = agent(tmp_path, "Hi.", tools=["bassh"])
    with pytest.raises(UsageError, match="Did you mean"):
        await made.__aenter__()
    made.tools = ["bash"]
    async with made:
        assert (await made.run("Hello")).text == "Hi."
