"""Row 8: offered by name, activated by user or model, enforced while active."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from langchain_core.messages import ToolMessage

from deerflow.agent.context import RunContext
from deerflow.middlewares.compaction import KEEP
from deerflow.middlewares.skill_activation import SkillActivationMiddleware
from deerflow.runtime.request import RunRequest
from deerflow.skills.inmemory import InMemorySkills
from deerflow.skills.protocol import Skill
from fakes.harness import scripted_harness, scripted_of
from fakes.rows import call_tool, events, request, run_context, started, tool, turn, user

COUNT = Skill("count-deer", "Counts deer.", "/mnt/skills/public/count-deer", ("bash", "Read"))
FREE = Skill("write-well", "Writes well.", "/mnt/skills/public/write-well")


def row(*skills: Skill) -> SkillActivationMiddleware:
    return SkillActivationMiddleware(
        InMemorySkills((skill, f"How to {skill.name}.") for skill in skills or (COUNT, FREE))
    )


async def shown(made: SkillActivationMiddleware, text: str) -> tuple[str, dict[str, Any]]:
    run = run_context()
    state = await started([made], {"messages": [user(text)]}, run)
    sent, _ = await turn([made], state, run)
    assert sent is not None
    return sent[-1].text, state


async def test_a_slash_and_a_name_activate_a_skill() -> None:
    text, state = await shown(row(), "/count-deer in the park")
    assert text.startswith("/count-deer in the park")
    assert "How to count-deer." in text
    assert "/mnt/skills/public/count-deer" in text
    assert state["active_skills"] == {"count-deer": COUNT.path}


async def test_a_path_or_an_unknown_word_is_no_command() -> None:
    for words in ("/etc/passwd is what?", "/no-such-skill please", "see /count-deer"):
        text, state = await shown(row(), words)
        assert text == words
        assert not state.get("active_skills")


async def test_a_new_request_ends_what_was_active() -> None:
    made, run = row(), run_context()
    state: dict[str, Any] = {"messages": [user("go on")], "active_skills": {"count-deer": "x"}}
    assert not (await started([made], state, run))["active_skills"]


async def test_tools_outside_the_list_are_refused_while_it_is_active() -> None:
    made, run = row(), run_context()
    state: dict[str, Any] = {"messages": [], "active_skills": {"count-deer": COUNT.path}}

    async def outcome(name: str, active: dict[str, str]) -> ToolMessage:
        asked = request(tool(name), run, {**state, "active_skills": active})
        done = await call_tool([made], run, asked, _done)
        assert isinstance(done, ToolMessage)
        return done

    refused = await outcome("web_search", {"count-deer": ""})
    assert refused.status == "error"
    assert "web_search is not allowed while the skill count-deer is active" in refused.text
    for name in ("bash", "read_file", "present_files"):
        assert (await outcome(name, {"count-deer": ""})).text == "done"
    assert (await outcome("web_search", {"write-well": ""})).text == "done"
    assert (await outcome("web_search", {})).text == "done"
    both = await outcome("web_search", {"count-deer": "", "write-well": ""})
    assert both.status == "error", "a skill without a list lifts no other's"


async def test_the_limits_of_a_skill_outlive_its_file() -> None:
    skills = InMemorySkills([(COUNT, "Count."), (FREE, "Write.")])
    made, run = SkillActivationMiddleware(skills), run_context()
    state = await started([made], {"messages": [user("/count-deer please")]}, run)
    skills._skills.clear()  # pyright: ignore[reportPrivateUsage]  # removed while the run goes on

    async def answered(name: str, of: RunContext, active: dict[str, str]) -> str:
        asked = request(tool(name), of, {**state, "active_skills": active})
        done = await call_tool([made], of, asked, _done)
        assert isinstance(done, ToolMessage)
        return done.text

    assert "not allowed" in await answered("web_search", run, state["active_skills"])
    assert await answered("bash", run, state["active_skills"]) == "done"
    assert await answered("web_search", run, {"write-well": ""}) == "done"
    resumed = run_context()  # in a new process nobody knows what it allowed
    assert "it allows no tools" in await answered("bash", resumed, state["active_skills"])


async def _done(**args: Any) -> str:
    return "done"


async def test_the_model_loads_a_skill(tmp_path: Path) -> None:
    folder = tmp_path / "skills" / "public" / "count-deer"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        "---\nname: count-deer\ndescription: Counts deer.\nallowed-tools: [ls]\n---\nLook twice."
    )
    script = [
        {"calls": [{"name": "load_skill", "args": {"name": "count-deer"}}]},
        {"calls": [{"name": "bash", "args": {"command": "ls"}}]},
        {"text": "Two."},
    ]
    async with scripted_harness(script, tmp_path) as harness:
        handle = await harness.runs.start(RunRequest("Count.", thread_id="t"))
        result = await handle.result()
        told = [event.payload async for event in handle.events() if event.type == "skill"]
    loaded, refused = [m for m in result.messages if isinstance(m, ToolMessage)]
    assert "Look twice." in loaded.text
    assert loaded.additional_kwargs[KEEP]
    assert "bash is not allowed" in refused.text
    assert told == [{"name": "count-deer", "by": "model"}]


async def test_without_skills_nothing_is_sent(tmp_path: Path) -> None:
    async with scripted_harness(["Done."], tmp_path) as harness:
        model = scripted_of(harness)
        await (await harness.runs.start(RunRequest("Hi."))).result()
    [asked] = model.requests
    assert "load_skill" not in asked.tool_names
    assert "Skills" not in asked.messages[0].text


async def test_the_event_names_who_asked() -> None:
    made, run = row(), run_context()
    await started([made], {"messages": [user("/write-well now")]}, run)
    assert await events(run, "skill") == [{"name": "write-well", "by": "user"}]


async def test_an_agent_with_a_list_is_offered_no_other_skill() -> None:
    made, run = row(), run_context(skills=("write-well",))
    state = await started([made], {"messages": [user("/count-deer now")]}, run)
    assert not state.get("active_skills")


async def test_a_skill_that_is_not_loaded_is_told_when_it_is_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "skills" / "public" / "bad"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("no header")
    async with scripted_harness(["Hm."], tmp_path) as harness:
        handle = await harness.runs.start(RunRequest("/bad do it"))
        told = [e.payload["message"] async for e in handle.events() if e.type == "notice"]
    [message] = told
    assert message.startswith("The skill bad is not loaded: there is no header")
