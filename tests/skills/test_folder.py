"""Skills on disk: what is found, what is mended, and what is not loaded and why."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deerflow.errors import NotFoundError
from deerflow.skills.folder import FolderSkills
from deerflow.skills.protocol import SkillListing

GOOD = "---\nname: {name}\ndescription: About {name}.\n---\nDo it.\n"


def put(root: Path, name: str, text: str | None = None) -> Path:
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "SKILL.md"
    file.write_text(text if text is not None else GOOD.format(name=folder.name), newline="")
    return file


async def listed(root: Path) -> SkillListing:
    return await FolderSkills(root, lambda user: None).list("ann")


async def test_nested_folders_are_found_up_to_three_deep(tmp_path: Path) -> None:
    put(tmp_path, "one")
    put(tmp_path, "group/two")
    put(tmp_path, "group/sub/three")
    put(tmp_path, "a/b/c/four")
    put(tmp_path, "one/inner")
    put(tmp_path, ".hidden")
    listing = await listed(tmp_path)
    assert [skill.name for skill in listing.skills] == ["one", "three", "two"]
    assert listing.skills[1].path == "/mnt/skills/public/group/sub/three"


@pytest.mark.parametrize(
    ("text", "name", "warned"),
    [
        (
            "---\ndescription: Star run: progress, errors\nname: star\n---\nx",
            "star",
            "by line",
        ),
        ("---\nname: 007\ndescription: true\n---\nx", "007", "is no text; put it in quotes"),
        ("\ufeff---\r\nname: bom\r\ndescription: With\r\n---\r\nx", "bom", ""),
        ("---\ndescription: No name\n---\nx", "folder", "its folder's is taken"),
    ],
)
async def test_what_is_plain_is_mended(tmp_path: Path, text: str, name: str, warned: str) -> None:
    put(tmp_path, "folder", text)
    listing = await listed(tmp_path)
    assert [skill.name for skill in listing.skills] == [name], listing.problems
    assert any(warned in line for line in listing.skills[0].warnings) or not warned


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("no header", 1, "no header"),
        ("---\nname: a\ndescription: b\n", 1, "not closed"),
        ("---\nname: a\n---\n", 1, "no description"),
        ("---\nname: Bad Name\ndescription: b\n---\n", 2, "other signs"),
        ("---\nname: a\nlist: [1, 2\ndescription: b\n  c: d\n---\n", 4, "header:"),
        (f"---\nname: a\ndescription: {'x' * 1_000_000}\n---\n", 1, "the header has 10000"),
    ],
)
async def test_one_bad_skill_hides_no_other(
    tmp_path: Path, text: str, line: int, reason: str
) -> None:
    put(tmp_path, "bad", text)
    put(tmp_path, "good")
    listing = await listed(tmp_path)
    assert [skill.name for skill in listing.skills] == ["good"]
    [problem] = listing.problems
    assert problem.path == "/mnt/skills/public/bad/SKILL.md"
    assert reason in problem.reason
    assert problem.line == line
    assert problem.cure


async def test_bytes_that_are_no_text_are_a_problem(tmp_path: Path) -> None:
    put(tmp_path, "bad").write_bytes(b"---\nname: a\xff\n---\n")
    listing = await listed(tmp_path)
    assert "byte 11 is no UTF-8" in listing.problems[0].reason


async def test_a_users_own_skill_comes_before_a_public_one(tmp_path: Path) -> None:
    put(tmp_path / "public", "report")
    put(tmp_path / "ann", "report", "---\nname: report\ndescription: Mine.\n---\nMine.")
    store = FolderSkills(
        tmp_path / "public", lambda user: tmp_path / user if user == "ann" else None
    )
    mine, theirs = await store.list("ann"), await store.list("bob")
    assert [skill.source for skill in mine.skills] == ["custom"]
    assert "comes first" in mine.problems[0].reason
    assert [skill.source for skill in theirs.skills] == ["public"]
    assert (await store.load("ann", "report"))[1] == "Mine."


async def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    file = put(tmp_path, "one")
    store = FolderSkills(tmp_path, lambda user: None)
    await store.list("ann")
    file.write_text("---\nname: one\ndescription: Longer than before.\n---\nNew.")
    skill, text = await store.load("ann", "one")
    assert (skill.description, text) == ("Longer than before.", "New.")


async def test_a_skill_that_is_not_loaded_says_why(tmp_path: Path) -> None:
    put(tmp_path, "bad", "no header")
    with pytest.raises(NotFoundError, match="not loaded: there is no header"):
        await FolderSkills(tmp_path, lambda user: None).load("ann", "bad")


async def test_allowed_tools_in_every_spelling(tmp_path: Path) -> None:
    put(tmp_path, "one", "---\nname: one\ndescription: d\nallowed-tools: Bash(git:*), Read\n---\n")
    put(tmp_path, "two", "---\nname: two\ndescription: d\nallowed-tools: [bash, ls]\n---\n")
    skills = (await listed(tmp_path)).skills
    assert [s.allowed_tools for s in skills] == [("Bash(git:*)", "Read"), ("bash", "ls")]


@pytest.mark.parametrize(
    "line",
    ["released: 2024-13-45", f"number: {'9' * 10_000}", "notes: [unclosed"],
    ids=["month 13", "digits", "bracket"],
)
async def test_a_header_that_yaml_cannot_read_hides_no_other_skill(
    tmp_path: Path, line: str
) -> None:
    put(tmp_path, "good")
    put(tmp_path, "odd", f"---\nname: odd\ndescription: Odd.\n{line}\n---\nDo it.\n")
    listing = await listed(tmp_path)
    assert [skill.name for skill in listing.skills] == ["good", "odd"]
    assert "read line by line" in listing.skills[1].warnings[0]


async def test_a_header_that_is_nested_too_deep_is_not_even_parsed(tmp_path: Path) -> None:
    put(tmp_path, "deep", f"---\nname: deep\ndescription: D.\nx: {'[' * 20_000}\n---\n")
    put(tmp_path, "steps", f"---\nname: steps\ndescription: D.\nx:\n  {'- ' * 9_000}a\n---\n")
    listing = await listed(tmp_path)
    assert not listing.skills
    assert ["too deep" in problem.reason for problem in listing.problems] == [True, True]


@pytest.mark.parametrize("value", ["{bash: true}", "5", "true", "[bash, 3]"])
async def test_limits_that_cannot_be_read_do_not_allow_everything(
    tmp_path: Path, value: str
) -> None:
    put(tmp_path, "odd", f"---\nname: odd\ndescription: D.\nallowed-tools: {value}\n---\n")
    [problem] = (await listed(tmp_path)).problems
    assert (problem.line, problem.reason) == (4, "allowed-tools is no list of names")


async def test_limits_hold_in_any_case(tmp_path: Path) -> None:
    put(tmp_path, "odd", "---\nname: odd\ndescription: D.\nAllowed_Tools: [ls]\n---\n")
    [skill] = (await listed(tmp_path)).skills
    assert skill.allowed_tools == ("ls",)


async def test_what_a_skill_says_can_be_sent(tmp_path: Path) -> None:
    put(tmp_path, "odd", '---\nname: odd\ndescription: "\\ud800 D \\e[31m\\0"\n---\na\0b\n')
    skill, text = await FolderSkills(tmp_path, lambda user: None).load("ann", "odd")
    assert (skill.description, text) == ("D [31m", "ab")


async def test_links_that_lead_out_are_told_and_not_read(tmp_path: Path) -> None:
    root = tmp_path / "skills"
    put(tmp_path / "elsewhere", "secret")
    put(root, "good")
    (root / "folder").symlink_to(tmp_path / "elsewhere" / "secret")
    (root / "file").mkdir()
    (root / "file" / "SKILL.md").symlink_to(tmp_path / "elsewhere" / "secret" / "SKILL.md")
    (root / "loop").mkdir()
    (root / "loop" / "SKILL.md").symlink_to("SKILL.md")
    (root / "again").symlink_to(root)
    listing = await listed(root)
    assert [skill.name for skill in listing.skills] == ["good"]
    assert [problem.reason for problem in listing.problems] == [
        "is a link that leads out of the folder of skills",
        "is a link that leads out of the folder of skills",
        "is a link to itself",
    ]
    with pytest.raises(NotFoundError, match="'folder' is not loaded: is a link"):
        await FolderSkills(root, lambda user: None).load("ann", "folder")


async def test_a_pipe_in_the_place_of_a_skill_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "SKILL.md")
    [problem] = (await listed(tmp_path)).problems
    assert problem.reason == "is no regular file"


async def test_what_has_not_changed_is_not_read_again(tmp_path: Path) -> None:
    skills = FolderSkills(tmp_path, lambda user: tmp_path / "own", age=0)

    async def names() -> list[str]:
        return [skill.name for skill in (await skills.list("ann")).skills]

    file = put(tmp_path, "one")
    first = await skills.list("ann")
    assert await skills.list("ann") is first
    put(tmp_path, "group/two")
    assert await names() == ["one", "two"]
    put(tmp_path, "own/three")
    assert await names() == ["one", "three", "two"]
    file.write_text(GOOD.format(name="one") + "And look twice.\n")
    assert (await skills.load("ann", "one"))[1].endswith("And look twice.")
    file.unlink()
    assert await names() == ["three", "two"]


async def test_a_listing_with_a_link_is_read_each_time(tmp_path: Path) -> None:
    put(tmp_path / "skills", "one")
    (tmp_path / "skills" / "other").symlink_to(tmp_path / "elsewhere")
    skills = FolderSkills(tmp_path / "skills", lambda user: None, age=0)
    assert not (await skills.list("ann")).problems
    put(tmp_path, "elsewhere")
    assert (await skills.list("ann")).problems


async def test_the_first_skill_of_a_user_is_noticed(tmp_path: Path) -> None:
    own = tmp_path / "ann"
    store = FolderSkills(None, lambda user: own if own.is_dir() else None, age=0)
    assert (await store.list("ann")).skills == ()
    put(own, "first")
    assert [skill.name for skill in (await store.list("ann")).skills] == ["first"]
