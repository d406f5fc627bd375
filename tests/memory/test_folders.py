"""Folders of users: names that never meet, locks, files that are whole."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.errors import StorageError
from deerflow.memory.deermem import folders
from deerflow.memory.deermem.folders import MAX_NAME_BYTES, UserFolder, safe_user_id

ANY = st.text(st.characters(), max_size=60)
"""Surrogates included."""


@pytest.mark.parametrize(
    ("user", "name"),
    [
        ("ann", "ann"),
        ("Ann", "%41nn"),
        ("%41nn", "%2541nn"),
        ("a.b/c\\d", "a%2eb%2fc%5cd"),
        ("..", "%2e%2e"),
        ("", "~"),
        ("~", "%7e"),
        ("ü", "%c3%bc"),
    ],
)
def test_names(user: str, name: str) -> None:
    assert safe_user_id(user) == name


@given(ANY, ANY)
def test_two_users_never_share_a_folder(one: str, other: str) -> None:
    """Not even where the file system makes no difference between A and a."""
    same = safe_user_id(one).lower() == safe_user_id(other).lower()
    assert same == (one == other)


@given(st.text(st.characters(), max_size=400))
def test_a_name_is_short_plain_and_no_way_out(user: str) -> None:
    name = safe_user_id(user)
    assert 1 <= len(name.encode()) <= MAX_NAME_BYTES
    assert name == name.lower()
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_%~")


def test_long_names_differ_in_their_last_letter() -> None:
    one, other = safe_user_id("x" * 101), safe_user_id("x" * 100 + "y")
    assert one != other
    assert one.startswith("sha256~")
    assert safe_user_id("x" * 100) == "x" * 100


def test_a_lock_keeps_threads_and_processes_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "LOCK_SECONDS", 0.2)
    folder = UserFolder(tmp_path, "ann")
    refused: list[StorageError] = []

    def try_it() -> None:
        try:
            with folder.locked():
                raise AssertionError
        except StorageError as error:
            refused.append(error)

    code = (
        "import sys; from pathlib import Path; from deerflow.memory.deermem import folders;"
        "folders.LOCK_SECONDS = 0.2\n"
        "with folders.UserFolder(Path(sys.argv[1]), 'ann').locked(): pass"
    )
    with folder.locked():
        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()
        other = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
        )
    assert refused[0].retryable
    assert "StorageError: Another process has been writing" in other.stderr
    with folder.locked():
        pass


def test_a_process_that_dies_lets_go(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from deerflow.memory.deermem import folders\n"
        "with folders.UserFolder(Path(sys.argv[1]), 'ann').locked(): os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert done.returncode == -9
    with UserFolder(tmp_path, "ann").locked():
        pass


def test_half_a_file_is_never_read(tmp_path: Path) -> None:
    folder = UserFolder(tmp_path, "ann")
    folder.write(b"first")
    (folder.path / "memory.new").write_bytes(b"sec")  # killed here
    assert folder.read() == b"first"
    folder.write(b"second")
    assert folder.read() == b"second"
    assert sorted(os.listdir(folder.path)) == ["memory.json"]


def test_a_memory_is_for_its_owner_alone(tmp_path: Path) -> None:
    folder = UserFolder(tmp_path, "ann")
    folder.write(b"x")
    assert folder.file.stat().st_mode & 0o077 == 0


def test_what_a_killed_removal_left_goes_with_the_next(tmp_path: Path) -> None:
    folder = UserFolder(tmp_path, "ann")
    folder.write(b"x")
    left = tmp_path / "trash" / "abc"
    left.mkdir(parents=True)
    (left / "memory.json").write_text("secret")
    assert folder.remove() is True
    assert list((tmp_path / "trash").iterdir()) == []
    assert folder.read() is None
    assert folder.remove() is False
