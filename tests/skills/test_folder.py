"""Skills on disk: what is found, what is mended, and what is not loaded and why."""

from __future__ import annotations

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


async def listed(root: Path, **facts: bool) -> SkillListing:
    return await FolderSkills(root, lambda user: None, facts).list("ann")


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


async def test_a_disabled_skill_is_not_offered(tmp_path: Path) -> None:
    put(tmp_path, "on")
    put(tmp_path, "off")
    assert [s.name for s in (await listed(tmp_path, off=False)).skills] == ["on"]


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
