"""The roster: built-in kinds, what the configuration changes and adds, names that do not exist."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from deerflow.config.load import load_config
from deerflow.config.schema import SubagentsConfig
from deerflow.errors import ConfigError
from deerflow.middlewares.subagent_limit import at_once
from deerflow.subagents.roster import Roster, SubagentSpec
from fakes.children import family, model, played, says, task
from fakes.harness import SCRIPTED, scripted_harness, scripted_of


def roster(*further: SubagentSpec, **keys: Any) -> Roster:
    return Roster(SubagentsConfig.model_validate(keys), further)


def test_built_in_kinds_have_the_general_limits() -> None:
    made = roster(max_turns=7, timeout_seconds=60)
    assert [spec.name for spec in made.kinds] == ["general-purpose", "bash"]
    assert {(spec.max_turns, spec.timeout_seconds) for spec in made.kinds} == {(7, 60)}
    assert made.get("painter") is None


def test_the_configuration_changes_and_adds() -> None:
    made = roster(
        max_turns=7,
        agents={"bash": {"max_turns": 3, "model": "small"}, "poet": {"timeout_seconds": 5}},
        custom_agents={
            "poet": {
                "description": "Verse.", "system_prompt": "Rhyme.", "tools": ["ls", "bash"],
                "disallowed_tools": ["bash"], "skills": ["verse"], "model": "inherit",
            },
        },
    )  # fmt: skip
    bash, poet = made.get("bash"), made.get("poet")
    assert bash is not None and (bash.max_turns, bash.model) == (3, "small")
    assert bash.timeout_seconds == 900
    assert poet is not None and poet.prompt == "Rhyme." and poet.skills == ("verse",)
    assert (poet.model, poet.max_turns, poet.timeout_seconds) == (None, 7, 5)
    assert poet.may_use("ls") and not poet.may_use("bash") and not poet.may_use("grep")


def test_kinds_that_are_handed_in_come_first_and_win() -> None:
    made = roster(SubagentSpec("own"), SubagentSpec("bash", "Mine."))
    assert [spec.name for spec in made.kinds] == ["own", "bash", "general-purpose"]
    mine = made.get("bash")
    assert mine is not None and mine.description == "Mine."


def test_an_unknown_model_is_an_error_and_an_unknown_tool_a_warning() -> None:
    made = roster(custom_agents={"poet": {"tools": ["ls", "rhyme"], "disallowed_tools": ["x"]}})
    (warning,) = made.check(["main"], ["ls"])
    assert "'poet' goes without rhyme, x" in warning
    with pytest.raises(ConfigError, match="'poet': no model is called 'big'; configured: main"):
        roster(custom_agents={"poet": {"model": "big"}}).check(["main"], [])
    assert roster().check(["main"], []) == []


async def test_names_are_looked_at_before_any_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = {"custom_agents": {"poet": {"tools": ["rhyme"]}}}
    with caplog.at_level(logging.WARNING):
        async with scripted_harness([], tmp_path, subagents=wrong):
            pass
    assert "'poet' goes without rhyme" in caplog.text
    with pytest.raises(ConfigError, match="no model is called 'big'"):
        async with scripted_harness(
            [], tmp_path, subagents={"custom_agents": {"poet": {"model": "big"}}}
        ):
            pass


def test_a_file_is_told_of_bounds_and_unknown_kinds(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "models: [{name: m, model: 'openai:x', api_key: k}]\n"
        "subagents:\n  max_concurrent: 9\n  agents: {painter: {max_turns: 2}}\n"
    )
    loaded = load_config(file, environ={}, cwd=tmp_path)
    assert at_once(loaded.config.subagents) == 4
    text = "\n".join(loaded.warnings)
    assert "subagents.max_concurrent: 9 is taken as the nearest of 2 to 4" in text
    assert "kinds: general-purpose, bash" in text


async def test_an_own_kind_has_its_prompt_tools_and_model(tmp_path: Path) -> None:
    own = {
        "poet": {
            "description": "Writes verse.", "system_prompt": "Rhyme always.", "tools": ["ls"],
            "model": "second",
        }
    }  # fmt: skip
    stories = {"lead": [says("", task("script:verse", kind="poet")), says("Done.")]}
    second = {"name": "second", "use": SCRIPTED, "script": {"verse": [says("Deer, dear.")]}}
    async with scripted_harness(
        [], tmp_path, models=[model(stories), second], subagents={"custom_agents": own}
    ) as harness:
        run = await played(harness)
        (asked,) = scripted_of(harness, "second").requests
        lead = scripted_of(harness).requests[0]
    assert run.answers[0].text == "Deer, dear."
    assert run.answers[0].additional_kwargs["subagent_model_name"] == "second"
    assert asked.tool_names == ["ls"] and "Rhyme always." in asked.messages[0].text
    described = next(t for t in lead.tools if t["function"]["name"] == "task")
    assert "poet: Writes verse" in described["function"]["description"]
    assert run.result.usage["by_caller"]["poet"]["calls"] == 1


async def test_without_subagents_nothing_is_delegated(tmp_path: Path) -> None:
    stories = {"lead": [says("", task("script:one")), says("Done.")]}
    run = await family(tmp_path, stories, subagents={"enabled": False})
    assert "no tool named 'task'" in run.answers[0].text
