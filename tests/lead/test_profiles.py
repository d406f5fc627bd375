"""Custom agents: a soul, a few settings, and who may see them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deerflow.errors import ConfigError, NotFoundError, UsageError
from deerflow.lead.profiles import ALWAYS, MAX_SOUL, FolderProfiles, LeadProfile
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
    assert set(asked[0].tool_names) == {"bash", *ALWAYS}
    assert asked[0].messages[0].text.startswith("You are poet,")
    assert "Answer in rhymes." in asked[0].messages[0].text
    assert "rhymes" not in asked[1].messages[0].text
    assert len(asked[1].tool_names) > 5


@pytest.mark.parametrize("file", ["SKILL", "SOUL.md", "config.yaml"])
async def test_a_link_that_leads_out_is_not_read(tmp_path: Path, file: str) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "SOUL.md").write_text("hidden: 1")
    (secret / "config.yaml").write_text("hidden: 1")
    kept, folder = profiles(tmp_path), tmp_path / "ann" / "spy"
    folder.parent.mkdir()
    if file == "SKILL":  # the whole folder
        folder.symlink_to(secret)
    else:
        folder.mkdir()
        if file != "SOUL.md":
            (folder / "SOUL.md").write_text("Spy.")
        (folder / file).symlink_to(secret / file)
    with pytest.raises(ConfigError, match="is a link that leads out") as caught:
        await kept.get("ann", "spy")
    assert "hidden" not in str(caught.value)


async def test_a_pipe_in_the_place_of_the_settings_is_not_waited_for(tmp_path: Path) -> None:
    kept = profiles(tmp_path)
    await kept.save("ann", POET)
    (tmp_path / "ann" / "poet" / "config.yaml").unlink()
    os.mkfifo(tmp_path / "ann" / "poet" / "config.yaml")
    with pytest.raises(ConfigError, match=r"config\.yaml: is no regular file"):
        await kept.get("ann", "poet")


@pytest.mark.parametrize(
    ("text", "message"),
    [("description: 2024-13-45", "month"), ("- a", r"config\.yaml: Input"), ("0", "dictionary")],
)
async def test_settings_of_any_kind_are_one_message(
    tmp_path: Path, text: str, message: str
) -> None:
    kept = profiles(tmp_path)
    await kept.save("ann", POET)
    (tmp_path / "ann" / "poet" / "config.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        await kept.get("ann", "poet")


async def test_no_tools_are_not_all_tools(tmp_path: Path) -> None:
    kept, bare = profiles(tmp_path), LeadProfile(name="bare", soul="x", tools=(), skills=())
    await kept.save("ann", bare)
    assert await kept.get("ann", "bare") == bare


async def test_a_soul_that_cannot_be_written_leaves_the_former_agent(tmp_path: Path) -> None:
    kept = profiles(tmp_path)
    await kept.save("ann", POET)
    with pytest.raises(UsageError, match="no text"):
        await kept.save("ann", LeadProfile(name="poet", soul="\ud800", max_turns=1))
    assert await kept.get("ann", "poet") == POET
    assert sorted(f.name for f in (tmp_path / "ann" / "poet").iterdir()) == [
        "SOUL.md",
        "config.yaml",
    ]


async def test_a_soul_that_is_too_long_is_not_cut_in_silence(tmp_path: Path) -> None:
    kept = profiles(tmp_path)
    await kept.save("ann", POET)
    (tmp_path / "ann" / "poet" / "SOUL.md").write_text("x" * (MAX_SOUL + 1))
    with pytest.raises(ConfigError, match="more than 65536 characters"):
        await kept.get("ann", "poet")


async def test_only_agents_that_can_be_named_are_listed(tmp_path: Path) -> None:
    kept = profiles(tmp_path)
    await kept.save("ann", POET)
    (tmp_path / "ann" / ".hidden").mkdir()
    (tmp_path / "ann" / ".hidden" / "SOUL.md").write_text("x")
    assert await kept.list("ann") == ["poet"]


async def test_a_resume_whose_agent_is_gone_leaves_the_run_as_it_is(tmp_path: Path) -> None:
    async with scripted_harness([{"error": "auth"}, "Hi."], tmp_path) as harness:
        kept = FolderProfiles(lambda user: tmp_path / "users" / user / "agents")
        await kept.save("local", LeadProfile(name="poet", soul="Rhyme."))
        begun = RunRequest("Go.", thread_id="t", agent_name="poet")
        await (await harness.runs.start(begun)).result()
        soul = tmp_path / "users" / "local" / "agents" / "poet" / "SOUL.md"
        soul.rename(soul.with_name("gone"))
        again = RunRequest(thread_id="t", resume=True)
        for _ in range(2):  # nobody holds the run, so the second is no conflict
            with pytest.raises(NotFoundError, match="no agent 'poet'"):
                await harness.runs.start(again)
        soul.with_name("gone").rename(soul)
        assert (await (await harness.runs.start(again)).result()).text == "Hi."


async def test_fields_of_clients_are_kept_and_an_agent_is_removed(tmp_path: Path) -> None:
    profiles = FolderProfiles(lambda user: tmp_path / user)
    accepted = {"tool_groups": ["web"], "model_settings": {"temperature": 0.2}}
    await profiles.save("ann", LeadProfile(name="clerk", soul="S."), accepted=accepted)
    kept = await profiles.accepted("ann", "clerk")
    assert (kept["tool_groups"], kept["model_settings"]) == (("web",), {"temperature": 0.2})
    assert await profiles.delete("ann", "clerk") is True
    assert await profiles.delete("ann", "clerk") is False
    assert await profiles.list("ann") == []


async def test_removing_an_agent_follows_no_link(tmp_path: Path) -> None:
    profiles = FolderProfiles(lambda user: tmp_path / user)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "SOUL.md").write_text("S.")
    (tmp_path / "ann").mkdir()
    (tmp_path / "ann" / "clerk").symlink_to(outside)
    assert await profiles.delete("ann", "../outside") is False
    assert await profiles.delete("ann", "clerk") is True
    assert (outside / "SOUL.md").exists()
