"""Files opened for serving: hashes, archives, and what is not served."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from pathlib import Path

import pytest

from deerflow.errors import NotFoundError, UsageError
from deerflow.gateway import opened
from deerflow.gateway.opened import Files
from deerflow.sandbox.protocol import OUTPUTS, ThreadFolders


@pytest.fixture
def folders(tmp_path: Path) -> ThreadFolders:
    found = ThreadFolders(tmp_path / "thread" / "user-data")
    found.outputs.mkdir(parents=True)
    return found


def zipped(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


async def whole(folders: ThreadFolders, name: str, files: Files | None = None) -> bytes:
    found = await (files or Files()).open(folders, f"{OUTPUTS}/{name}")
    try:
        data = b"".join([piece async for piece in found.read(range(found.size))])
    finally:
        found.close()
    assert found.sha256 == hashlib.sha256(data).hexdigest()
    return data


@pytest.mark.parametrize("size", [0, 1, opened.WHOLE, opened.WHOLE + 1, 3_000_000])
async def test_every_size(size: int, folders: ThreadFolders) -> None:
    data = os.urandom(size)
    (folders.outputs / "a").write_bytes(data)
    assert await whole(folders, "a") == data


async def test_a_change_is_seen_even_within_a_tick_of_the_clock(folders: ThreadFolders) -> None:
    files, file = Files(), folders.outputs / "a"
    for number in range(5):
        data = bytes([number]) * (opened.WHOLE + 10)
        file.write_bytes(data)
        os.utime(file, ns=(1, 1))
        assert await whole(folders, "a", files) == data


async def test_digests_of_settled_files_are_remembered(folders: ThreadFolders) -> None:
    files, file = Files(), folders.outputs / "a"
    file.write_bytes(b"x" * (opened.WHOLE + 10))
    facts = file.stat()
    stamp = opened._stamp(facts)
    files._digests[stamp] = "known"
    found = await files.open(folders, f"{OUTPUTS}/a")
    found.close()
    assert found.sha256 == "known"


@pytest.mark.parametrize("top", ["", "my-skill/"])
async def test_members_of_a_skill(top: str, folders: ThreadFolders) -> None:
    (folders.outputs / "x.skill").write_bytes(
        zipped({f"{top}SKILL.md": b"# hello", f"{top}scripts/a.py": b"1"})
    )
    assert await whole(folders, "x.skill/SKILL.md") == b"# hello"
    assert await whole(folders, "x.skill/scripts/a.py") == b"1"
    with pytest.raises(NotFoundError):
        await whole(folders, "x.skill/nothing")


async def test_a_folder_may_be_named_like_a_skill(folders: ThreadFolders) -> None:
    (folders.outputs / "x.skill").mkdir()
    (folders.outputs / "x.skill" / "a").write_text("in a folder")
    assert await whole(folders, "x.skill/a") == b"in a folder"


@pytest.mark.parametrize(
    "data",
    [
        b"no archive",
        zipped({"SKILL.md": b"x" * 100})[:-30],
        zipped({"SKILL.md": b"a" * (opened.MEMBER + 1)}),
        zipped({f"{number}": b"" for number in range(opened.ENTRIES + 1)}),
    ],
    ids=["no archive", "cut", "bomb", "many"],
)
async def test_hostile_archives(data: bytes, folders: ThreadFolders) -> None:
    (folders.outputs / "x.skill").write_bytes(data)
    with pytest.raises(UsageError):
        await whole(folders, "x.skill/SKILL.md")


async def test_a_member_whose_checksum_is_wrong(folders: ThreadFolders) -> None:
    data = bytearray(zipped({"SKILL.md": b"hello hello hello"}))
    data[40] ^= 0xFF
    (folders.outputs / "x.skill").write_bytes(data)
    with pytest.raises(UsageError, match="damaged"):
        await whole(folders, "x.skill/SKILL.md")


@pytest.mark.parametrize("name", ["", "nothing", "dir", "pipe", "out", "file/below", "../../../x"])
async def test_what_is_not_served(name: str, folders: ThreadFolders, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of the host")
    (folders.outputs / "dir").mkdir()
    (folders.outputs / "file").touch()
    os.mkfifo(folders.outputs / "pipe")
    (folders.outputs / "out").symlink_to(tmp_path / "secret")
    with pytest.raises(NotFoundError) as caught:
        await whole(folders, name)
    assert str(tmp_path) not in str(caught.value)
