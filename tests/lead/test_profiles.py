"""Custom agents: a soul, a few settings, and who may see them."""

from __future__ import annotations

from pathlib import Path

import pytest

from deerflow.errors import ConfigError, NotFoundError, UsageError
from deerflow.lead.profiles import MAX_SOUL, FolderProfiles, LeadProfile
from deerflow.runtime.request import RunRequest
from fakes.harness import scripted_harness, scripted_of

POET = LeadProfile(
    name="poet",
    description="Writes verse.",
    soul="Answer in rhymes.",
    tools=("bash", "write_file"),
    skills=("verse",),
    max_turns=7,
)


def profiles(root: Path) -> FolderProfiles:
    return FolderProfiles(lambda user: root / user)


async def test_what_is_saved_is_read_back(tmp_path: Path) -> None:
    kept = profiles(tmp_path)
    await kept.save("ann", POET)
    assert await kept.get("ann", "poet") == POET
    assert await kept.list("ann") == ["poet"]


async def test_an_agent_belongs_to_its_user(tmp_path: Path) -> None:
    kept = profiles(tmp_path)
    await kept.save("ann", POET)
    assert await kept.list("bob") == []
    with pytest.raises(NotFoundError, match="no agent 'poet'"):
        await kept.get("bob", "poet")


async def test_an_unknown_name_gets_the_nearest(tmp_path: Path) -> None:
    kept = profiles(tmp_path)
    await kept.save("ann", POET)
    with pytest.raises(NotFoundError, match="Did you mean 'poet'"):
        await kept.get("ann", "poets")


@pytest.mark.parametrize("name", ["", "..", "a/b", "../ann/poet", "x" * 65, "ünïcode", "a."])
async def test_a_name_is_never_a_path(tmp_path: Path, name: str) -> None:
    kept = profiles(tmp_path)
    with pytest.raises(UsageError):
        await kept.save("ann", LeadProfile(name=name, soul="x"))
    with pytest.raises(NotFoundError):
        await kept.get("ann", name)


async def test_a_soul_of_a_megabyte_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="more than 65536 characters"):
        await profiles(tmp_path).save("ann", LeadProfile(name="big", soul="x" * (MAX_SOUL + 1)))


@pytest.mark.parametrize(
    ("text", "told"),
    [("tools: [a", "config.yaml: while parsing"), ("max_turns: 0", "max_turns"), ("x: 1", "x")],
)
async def test_broken_settings_are_named(tmp_path: Path, text: str, told: str) -> None:
    kept = profiles(tmp_path)
    await kept.save("ann", POET)
    (tmp_path / "ann" / "poet" / "config.yaml").write_text(text)
    with pytest.raises(ConfigError, match="agent poet: config.yaml") as caught:
        await kept.get("ann", "poet")
    assert told in str(caught.value)


async def test_a_custom_agent_leads_a_run(tmp_path: Path) -> None:
    folder = tmp_path / "users" / "local" / "agents" / "poet"
    folder.mkdir(parents=True)
    (folder / "SOUL.md").write_text("Answer in rhymes.")
    (folder / "config.yaml").write_text("tools: [bash]\n")
    async with scripted_harness(["Deer, dear.", "Plain."], tmp_path) as harness:
        for name in ("poet", ""):
            request = RunRequest("Speak.", agent_name=name)
            await (await harness.runs.start(request)).result()
        with pytest.raises(NotFoundError):
            await harness.runs.start(RunRequest("Speak.", agent_name="pirate"))
        asked = scripted_of(harness).requests
    assert asked[0].tool_names == ["bash"]
    assert asked[0].messages[0].text.startswith("You are poet,")
    assert "Answer in rhymes." in asked[0].messages[0].text
    assert "rhymes" not in asked[1].messages[0].text
    assert len(asked[1].tool_names) > 5
