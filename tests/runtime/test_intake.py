"""Uploads: checked all at once, and never written through what an agent left in the folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deerflow.config.schema import UploadsConfig
from deerflow.errors import StorageError, UsageError
from deerflow.runtime.intake import check_uploads, copy_uploads, safe_name


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "notes.txt"
    path.write_text("from the user", encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "uploads"
    path.mkdir()
    return path


@pytest.mark.parametrize("name", ["notes.txt", ".notes.txt.part", ".notes.txt"])
def test_a_link_that_an_agent_left_is_not_followed(
    name: str, source: Path, folder: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("of the host", encoding="utf-8")
    (folder / name).symlink_to(victim)
    placed = [folder / stored for stored in copy_uploads([source], folder)]
    assert [path.read_text(encoding="utf-8") for path in placed] == ["from the user"]
    assert not placed[0].is_symlink()
    assert victim.read_text(encoding="utf-8") == "of the host"


def test_a_link_in_the_place_of_the_folder_is_refused(source: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "uploads").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="could not be stored"):
        copy_uploads([source], tmp_path / "uploads")
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("text", ["", "from the user"])
def test_pipes_and_dangling_links_in_the_way_are_walked_around(
    text: str, source: Path, folder: Path
) -> None:
    source.write_text(text, encoding="utf-8")
    os.mkfifo(folder / "notes.txt")
    (folder / "notes-2.txt").symlink_to("/nowhere/at/all")
    (folder / "notes-3.txt").mkdir()
    assert copy_uploads([source], folder) == ["notes-4.txt"]
    assert (folder / "notes-4.txt").read_text(encoding="utf-8") == text


def test_the_same_file_again_keeps_its_name_another_gets_a_new_one(
    source: Path, folder: Path
) -> None:
    assert copy_uploads([source, source], folder) == ["notes.txt", "notes.txt"]
    source.write_text("changed", encoding="utf-8")
    assert copy_uploads([source], folder) == ["notes-2.txt"]
    assert sorted(path.name for path in folder.iterdir()) == ["notes-2.txt", "notes.txt"]


def test_everything_wrong_is_one_message(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    paths = [tmp_path / "pipe", tmp_path, tmp_path / "gone"]
    with pytest.raises(UsageError) as refused:
        check_uploads(paths, UploadsConfig())
    text = str(refused.value)
    assert "pipe: is no regular file" in text
    assert f"{tmp_path}: is a folder" in text
    assert "gone: does not exist" in text


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../x", "_.._x"),
        ("a\nb\x1b[31m.txt", "a_b_[31m.txt"),
        ("\u202egnp.exe", "_gnp.exe"),
        (".bashrc", "bashrc"),
        ("..", "file"),
        ("😀.md", "😀.md"),
        ("n" * 255 + ".txt", "n" * 196 + ".txt"),
        ("bad\udcff", "bad_"),
    ],
)
def test_names_are_made_safe(name: str, safe: str) -> None:
    assert safe_name(name) == safe
