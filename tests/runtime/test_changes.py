"""What a run changed, seen from the folders alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from deerflow.runtime import changes
from deerflow.runtime.changes import Beginning, begun, ended, result_of
from deerflow.sandbox.protocol import ThreadFolders

RUN = "run-1"


@pytest.fixture
def folders(tmp_path: Path) -> ThreadFolders:
    found = ThreadFolders(tmp_path / "thread" / "user-data")
    for folder in (found.workspace, found.uploads, found.outputs):
        folder.mkdir(parents=True)
    return found


async def started(folders: ThreadFolders, *, resumed: bool = False) -> Beginning:
    found = await begun(folders, RUN, resumed=resumed)
    assert found is not None
    return found


async def told(folders: ThreadFolders, beginning: Beginning, *, over: bool = True) -> Any:
    return await ended(folders, RUN, beginning, over=over)


async def test_created_modified_deleted_and_linked(folders: ThreadFolders) -> None:
    (folders.workspace / "kept.txt").write_text("same\n")
    (folders.workspace / "old.txt").write_text("one\ntwo\n")
    (folders.workspace / "gone.txt").write_text("x\n")
    beginning = await started(folders)
    (folders.workspace / "old.txt").write_text("one\nthree\nfour\n")
    (folders.workspace / "gone.txt").unlink()
    (folders.workspace / "link").symlink_to("old.txt")
    (folders.outputs / "deep").mkdir()
    (folders.outputs / "deep" / "報告.md").write_text("# new\n")
    (folders.outputs / "image.bin").write_bytes(b"\0\1")
    (folders.uploads / "not ours").write_text("x")
    found = await told(folders, beginning)
    assert found["summary"] == {
        "created": 2, "modified": 1, "deleted": 1, "symlink_created": 1,
        "additions": 3, "deletions": 2, "truncated": False,
    }  # fmt: skip
    by_path = {file["path"]: file for file in found["files"]}
    assert {path: file["status"] for path, file in by_path.items()} == {
        "/mnt/user-data/outputs/deep/報告.md": "created",
        "/mnt/user-data/outputs/image.bin": "created",
        "/mnt/user-data/workspace/gone.txt": "deleted",
        "/mnt/user-data/workspace/link": "symlink_created",
        "/mnt/user-data/workspace/old.txt": "modified",
    }
    assert by_path["/mnt/user-data/outputs/image.bin"]["binary"]
    assert all("diff" not in file for file in found["files"])
    kept = await result_of(folders, RUN)
    assert kept is not None
    diffs = {file["path"]: file["diff"] for file in kept["files"]}
    assert diffs["/mnt/user-data/workspace/old.txt"].splitlines()[-3:] == [
        "-two",
        "+three",
        "+four",
    ]
    assert not list((folders.root.parent / "changes").glob("*.begun"))


async def test_a_chat_leaves_nothing_on_the_disk(tmp_path: Path) -> None:
    folders = ThreadFolders(tmp_path / "thread" / "user-data")
    assert await told(folders, await started(folders)) is None
    assert os.listdir(tmp_path) == []


async def test_a_new_time_stamp_alone_is_no_change(folders: ThreadFolders) -> None:
    (folders.workspace / "a.txt").write_text("same")
    beginning = await started(folders)
    os.utime(folders.workspace / "a.txt", ns=(1, 1))
    assert await told(folders, beginning) is None
    assert await result_of(folders, RUN) is None


async def test_a_run_that_is_taken_up_is_compared_with_its_own_beginning(
    folders: ThreadFolders,
) -> None:
    (folders.workspace / "a.txt").write_text("before\n")
    await started(folders)
    (folders.workspace / "a.txt").write_text("by the first worker\n")
    again = await started(folders, resumed=True)
    paused = await told(folders, again, over=False)
    (folders.workspace / "b.txt").write_text("after the pause\n")
    found = await told(folders, await started(folders, resumed=True))
    assert [file["path"][-5:] for file in paused["files"]] == ["a.txt"]
    assert [(file["path"][-5:], file["status"]) for file in found["files"]] == [
        ("a.txt", "modified"), ("b.txt", "created"),
    ]  # fmt: skip


async def test_a_run_that_began_with_nothing_is_compared_with_nothing(
    folders: ThreadFolders,
) -> None:
    await started(folders)
    (folders.outputs / "a.txt").write_text("x")
    again = await started(folders, resumed=True)
    assert (await told(folders, again))["summary"]["created"] == 1


async def test_links_are_never_followed(folders: ThreadFolders, tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "secret.txt").write_text("of the host")
    beginning = await started(folders)
    (folders.workspace / "dir").symlink_to(tmp_path / "host")
    (folders.workspace / "file").symlink_to(tmp_path / "host" / "secret.txt")
    folders.outputs.rmdir()
    folders.outputs.symlink_to(tmp_path / "host")
    await told(folders, beginning)
    kept = await result_of(folders, RUN)
    assert kept is not None
    assert [file["path"].rpartition("/")[2] for file in kept["files"]] == ["dir", "file"]
    assert "of the host" not in str(kept)


async def test_hidden_and_installed_files_are_not_looked_at(folders: ThreadFolders) -> None:
    beginning = await started(folders)
    for name in (".git/config", "node_modules/x.js", ".hidden", "src/__pycache__/x.pyc"):
        (folders.workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (folders.workspace / name).write_text("x")
    assert await told(folders, beginning) is None


async def test_more_files_than_are_told(folders: ThreadFolders) -> None:
    beginning = await started(folders)
    for number in range(changes.LISTED + 5):
        (folders.outputs / f"{number:04}.txt").write_text("x\n")
    found = await told(folders, beginning)
    assert len(found["files"]) == changes.LISTED
    assert found["summary"]["created"] == changes.LISTED + 5
    assert found["summary"]["truncated"]


async def test_more_files_than_are_looked_at_do_not_seem_to_come_or_go(
    folders: ThreadFolders,
) -> None:
    for number in range(changes.SCANNED + 10):
        (folders.outputs / f"{number:05}").touch()
    (folders.outputs / "00001").write_text("one\n")
    beginning = await started(folders)
    (folders.outputs / "00000").unlink()
    (folders.outputs / "00001").write_text("two\n")
    found = await told(folders, beginning)
    assert [(file["path"][-5:], file["status"]) for file in found["files"]] == [
        ("00001", "modified")
    ]
    assert found["summary"]["truncated"]


async def test_a_long_diff_is_cut(folders: ThreadFolders) -> None:
    beginning = await started(folders)
    (folders.outputs / "long.txt").write_text("x" * 99 + "\n" * 1 + ("y" * 99 + "\n") * 2_000)
    found = await told(folders, beginning)
    kept = await result_of(folders, RUN)
    assert kept is not None
    assert (len(kept["files"][0]["diff"]), kept["files"][0]["diff_truncated"]) == (
        changes.DIFF_CHARS,
        True,
    )
    assert found["summary"]["additions"] == 2_001


async def test_a_thread_that_is_gone_is_not_made_again(
    folders: ThreadFolders, tmp_path: Path
) -> None:
    beginning = Beginning({"/mnt/user-data/outputs/a": changes.Facts("file", 1, 1)})
    folders.root.parent.rename(tmp_path / "elsewhere")
    await told(folders, beginning)
    assert not folders.root.parent.exists()


async def test_old_results_go(folders: ThreadFolders) -> None:
    for number in range(changes.RESULTS + 3):
        (folders.outputs / "a").write_text(str(number))
        await ended(folders, f"run-{number}", Beginning(), over=True)
    assert len(list((folders.root.parent / "changes").glob("*.json"))) == changes.RESULTS
    assert await result_of(folders, "run-0") is None
