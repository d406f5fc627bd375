"""Opening below a thread's folders: no swap, link or kernel without openat2 leads outside."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from deerflow.errors import PathError
from deerflow.sandbox import openat
from deerflow.sandbox.openat import Opener, open_beneath
from fakes.folders import SECRET, Home, refused


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


FLIP = """
import itertools, os, sys
door, target = sys.argv[1:]
for turn in itertools.count():
    kept = f"{door}-kept{turn}"
    for step, names in ((os.rename, (door, kept)), (os.symlink, (target, door)),
                        (os.unlink, (door,)), (os.rename, (kept, door))):
        try:
            step(*names)
        except OSError:  # a writer may make the folder anew
            pass
    if turn == 0:
        print(flush=True)
"""


@contextlib.contextmanager
def flipping(door: Path, target: Path) -> Iterator[None]:
    """A process of its own that flips a name between what it is and a link, until the end."""
    command = [sys.executable, "-S", "-c", FLIP, str(door), str(target)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


async def attempts(call: Callable[[], Awaitable[object]]) -> set[object]:
    """What a call yields while the attacker works; at least 400 times, and until it succeeds."""
    seen: set[object] = set()
    for count in itertools.count():
        try:
            seen.add(await call())
        except PathError:
            pass
        if count >= 400 and seen:
            return seen
    raise AssertionError


async def test_swapping_a_directory_for_a_link_never_leads_outside(home: Home) -> None:
    """An attacker flips `d` between a folder and a link out while the tools work on `d/key`."""
    (home.work / "d").mkdir()
    (home.work / "d" / "key").write_bytes(b"inside")
    with flipping(home.work / "d", home.secret):
        assert await attempts(lambda: home.tree.read("d/key")) == {b"inside"}
        await attempts(lambda: home.tree.write("d/key", b"inside"))
    assert (home.secret / "key").read_bytes() == SECRET
    assert sorted(entry.name for entry in home.secret.iterdir()) == ["key"]


async def test_swapping_a_file_for_a_link_never_leads_outside(home: Home) -> None:
    (home.work / "f").write_bytes(b"inside")
    with flipping(home.work / "f", home.secret / "key"):
        assert await attempts(lambda: home.tree.read("f")) == {b"inside"}
    with flipping(home.work / "g", home.secret / "key"):
        await attempts(lambda: home.tree.write("g", b"inside"))
    assert (home.secret / "key").read_bytes() == SECRET


@pytest.mark.parametrize("walk", [False, True])
async def test_a_swap_between_look_and_open_is_caught(
    home: Home, monkeypatch: pytest.MonkeyPatch, walk: bool
) -> None:
    """The worst moment: each name turns into a link out right after it was looked at."""
    look = openat.is_link

    def swapping_look(directory: int, name: bytes) -> bool:
        linked = look(directory, name)
        target = home.secret if name == b"d" else home.secret / "key"
        if not linked and name in (b"d", b"key"):
            os.rename(name, name + b"-kept", src_dir_fd=directory, dst_dir_fd=directory)
            os.symlink(target, name, dir_fd=directory)
        return linked

    def missing(directory: int, path: bytes, flags: int) -> int:
        raise OSError(38, "no openat2")

    monkeypatch.setattr(openat, "is_link", swapping_look)
    if walk:
        monkeypatch.setattr(openat, "open_beneath", missing)
    for number, call in enumerate(
        (
            lambda: home.tree.read("key"),
            lambda: home.tree.read("d/key"),
            lambda: home.tree.grep("secret", path="key"),
            lambda: home.tree.listdir("d"),
            lambda: home.tree.write("key", b"mine"),
            lambda: home.tree.write("d/key", b"mine"),
        )
    ):
        shutil.rmtree(home.work)
        (home.work / "d").mkdir(parents=True)
        (home.work / "d" / "key").write_bytes(b"inside")
        (home.work / "key").write_bytes(b"inside")
        with pytest.raises(PathError):
            await call()
        assert any("-kept" in entry.name for entry in home.work.rglob("*")), number
    assert (home.secret / "key").read_bytes() == SECRET


def test_the_kernel_refuses_to_leave(home: Home) -> None:
    (home.work / "link").symlink_to("..")
    fd = os.open(home.work, os.O_PATH)
    try:
        for path in (b"..", b"/etc/passwd", b"link/outputs"):
            with pytest.raises(OSError, match="cross-device"):
                open_beneath(fd, path, os.O_RDONLY)
    finally:
        os.close(fd)


async def test_the_walk_alone_is_as_safe(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels without openat2 take the walk for every path."""

    def missing(directory: int, path: bytes, flags: int) -> int:
        raise OSError(38, "no openat2")

    monkeypatch.setattr(openat, "open_beneath", missing)
    (home.work / "a" / "b").mkdir(parents=True)
    (home.work / "a" / "b" / "f").write_bytes(b"deep")
    (home.work / "dir").symlink_to(home.secret)
    assert await home.tree.read("a/b/f") == b"deep"
    with pytest.raises(PathError, match="does not exist"):
        await home.tree.read("a/x/f")
    await refused(home, "dir/key")


def test_opener_gives_no_place_for_bare_directories(home: Home) -> None:
    opener = Opener(home.folders)
    with pytest.raises(PathError, match="only holds"), opener.spot(opener.paths.resolve("/mnt")):
        pass
