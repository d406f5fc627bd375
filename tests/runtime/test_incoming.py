"""Files that arrive: nothing stays of what is not placed, and nothing is overwritten."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from deerflow.errors import StorageError
from deerflow.runtime.incoming import Incoming, open_folder

Place = Callable[[bytes, str], str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "uploads"


@pytest.fixture
def place(tmp_path: Path, folder: Path) -> Place:
    def placed(data: bytes, name: str) -> str:
        with Incoming(tmp_path / "incoming") as file, open_folder(folder) as directory:
            file.write(data)
            return file.place(directory, name)

    return placed


def test_a_taken_name_gets_a_number_unless_the_bytes_are_the_same(
    place: Place, folder: Path
) -> None:
    names = [place(data, "a.tar.gz") for data in (b"one", b"two", b"one", b"two")]
    assert names == ["a.tar.gz", "a.tar-2.gz", "a.tar.gz", "a.tar-2.gz"]
    assert sorted(os.listdir(folder)) == ["a.tar-2.gz", "a.tar.gz"]


def test_links_and_pipes_are_never_the_same_file(
    place: Place, folder: Path, tmp_path: Path
) -> None:
    folder.mkdir()
    (tmp_path / "secret").write_bytes(b"x")
    (folder / "a").symlink_to(tmp_path / "secret")
    os.mkfifo(folder / "a-2")
    assert place(b"x", "a") == "a-3"
    assert (tmp_path / "secret").read_bytes() == b"x"


def test_nothing_stays_of_what_is_not_placed(tmp_path: Path) -> None:
    with Incoming(tmp_path / "incoming") as file:
        file.write(b"x" * 100_000)
        assert file.size == 100_000
    assert list((tmp_path / "incoming").iterdir()) == []


def test_the_owner_of_the_folder_gets_the_file(place: Place, folder: Path) -> None:
    folder.mkdir()
    owner = 64123 if os.geteuid() == 0 else os.geteuid()
    os.chown(folder, owner, -1)
    facts = (folder / place(b"x", "a")).stat()
    assert (facts.st_uid, facts.st_mode & 0o777) == (owner, 0o644)


def test_a_link_in_the_place_of_the_folder_is_refused(place: Place, folder: Path) -> None:
    folder.symlink_to("/")
    with pytest.raises(StorageError, match="could not be stored") as caught:
        place(b"x", "a")
    assert str(folder) not in str(caught.value)
