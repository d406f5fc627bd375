"""Skills of users: written, rolled back, removed, and nothing outside of their folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from deerflow.errors import NotFoundError, UsageError
from deerflow.skills.folder import FolderSkills
from deerflow.skills.own import VERSIONS, OwnSkills

TEXT = "---\nname: {name}\ndescription: {about}\n---\nDo it.\n"


def text(about: str = "Counts.", name: str = "count") -> str:
    return TEXT.format(name=name, about=about)


@pytest.fixture
def own(tmp_path: Path) -> OwnSkills:
    return OwnSkills(lambda user: tmp_path / user)


async def test_what_is_written_is_offered_to_its_owner_alone(
    own: OwnSkills, tmp_path: Path
) -> None:
    await own.write("ann", "count", text())
    store = FolderSkills(None, lambda user: tmp_path / user)
    assert [(s.name, s.source) for s in (await store.list("ann")).skills] == [("count", "custom")]
    assert (await store.list("bob")).skills == ()
    assert await own.read("ann", "count") == text()
    with pytest.raises(NotFoundError, match="no skill 'count' of your own"):
        await own.read("bob", "count")


async def test_a_version_is_gone_back_to_as_a_new_one(own: OwnSkills) -> None:
    for about in ("First.", "Second."):
        await own.write("ann", "count", text(about))
    assert [each.number for each in await own.versions("ann", "count")] == [2, 1]
    await own.roll_back("ann", "count", 1)
    assert await own.read("ann", "count") == text("First.")
    assert [each.number for each in await own.versions("ann", "count")] == [3, 2, 1]
    with pytest.raises(NotFoundError, match="no version 9"):
        await own.roll_back("ann", "count", 9)


async def test_a_text_that_was_written_by_hand_is_a_version_too(
    own: OwnSkills, tmp_path: Path
) -> None:
    folder = tmp_path / "ann" / "count"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(text("By hand."))
    assert [each.number for each in await own.versions("ann", "count")] == [1]
    await own.write("ann", "count", text("Newer."))
    await own.roll_back("ann", "count", 1)
    assert "By hand." in await own.read("ann", "count")


async def test_old_versions_go(own: OwnSkills) -> None:
    for number in range(VERSIONS + 3):
        await own.write("ann", "count", text(f"Number {number}."))
    numbers = [each.number for each in await own.versions("ann", "count")]
    assert numbers == list(range(VERSIONS + 3, 3, -1))


async def test_a_removed_skill_takes_its_versions_along(own: OwnSkills, tmp_path: Path) -> None:
    await own.write("ann", "count", text("Old."))
    await own.delete("ann", "count")
    await own.write("ann", "count", text("New."))
    assert len(await own.versions("ann", "count")) == 1
    with pytest.raises(NotFoundError):
        await own.delete("ann", "other")


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("../x", text(), "no name of a skill"),
        ("Count", text(), "no name of a skill"),
        ("count", "no header", "there is no header"),
        ("count", text(name="other"), "calls itself 'other'"),
        ("count", text() + "x" * 1_048_576, "larger than 1 MB"),
        ("count", text("half \ud800 a pair"), "surrogate"),
    ],
)
async def test_what_could_not_be_loaded_is_refused(
    own: OwnSkills, tmp_path: Path, name: str, content: str, why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        await own.write("ann", name, content)
    assert not (tmp_path / "ann").exists()


async def test_links_to_elsewhere_are_neither_read_nor_written(
    own: OwnSkills, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "SKILL.md").write_text(text("Secret."))
    (tmp_path / "ann").mkdir()
    (tmp_path / "ann" / "count").symlink_to(outside)
    with pytest.raises(NotFoundError):
        await own.read("ann", "count")
    with pytest.raises(UsageError, match="link to elsewhere"):
        await own.write("ann", "count", text())
    with pytest.raises(NotFoundError):
        await own.delete("ann", "count")
    assert "Secret." in (outside / "SKILL.md").read_text()
