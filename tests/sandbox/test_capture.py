"""Output of commands: text, ends, spill file, hidden paths."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deerflow.sandbox.capture import KEEP_BYTES, Alias, Capture, Spill, readable


def capture(root: Path, room: int = 1 << 30, alias: Alias | None = None) -> Capture:
    (root / "workspace").mkdir(parents=True, exist_ok=True)
    return Capture(Spill(root, "out.txt", None, room), alias or Alias())


def fed(root: Path, *pieces: bytes, room: int = 1 << 30) -> Capture:
    made = capture(root, room)
    for piece in pieces:
        made.feed(piece)
    made.finish()
    return made


def test_short(tmp_path: Path) -> None:
    made = fed(tmp_path, b"a", b"b\xff\0")
    assert made.text(20) == ("ab\\xff\\x00", False)
    assert list((tmp_path / "workspace").iterdir()) == []


@pytest.mark.parametrize("size", [30_000, KEEP_BYTES, KEEP_BYTES + 1, 5 * KEEP_BYTES])
def test_long(tmp_path: Path, size: int) -> None:
    data = bytes(range(33, 127)) * (size // 94 + 1)
    made = fed(tmp_path, *(data[i : i + 4096] for i in range(0, len(data), 4096)))
    text, cut = made.text(1000)
    assert cut and len(text) <= 1000
    head, note, tail = text.split("\n")
    assert data.startswith(head.encode()) and data.endswith(tail.encode())
    assert f"{len(data):,} bytes" in note and made.spill.virtual in note
    made.spill.close()
    assert (tmp_path / "workspace" / ".tool-results" / "out.txt").read_bytes() == data


def test_room(tmp_path: Path) -> None:
    made = fed(tmp_path, b"x" * KEEP_BYTES, b"y" * KEEP_BYTES, room=KEEP_BYTES + 5)
    assert made.spill.full and made.total == 2 * KEEP_BYTES
    assert "up to the disk limit" in made.text(1000)[0]
    made.spill.close()


def test_spill_follows_no_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    root = tmp_path / "root"
    (root / "workspace").mkdir(parents=True)
    os.symlink(outside, root / "workspace" / ".tool-results")
    made = fed(root, b"x" * 5000)
    text, cut = made.text(1000)
    assert cut and made.spill.failed and "not kept" in text
    assert list(outside.iterdir()) == []


@given(st.binary(max_size=200), st.lists(st.integers(1, 9), max_size=40))
def test_alias_hides_paths_however_the_stream_is_cut(data: bytes, cuts: list[int]) -> None:
    host = b"/srv/home/user-data"
    whole = b"/srv/" + host + data + host[:6] + host + b"!"
    alias = Alias(((host, b"/mnt/user-data"), (b"/srv/home", b"~")))
    out, rest = b"", whole
    for cut in cuts:
        out += alias.feed(rest[:cut])
        rest = rest[cut:]
    out += alias.feed(rest) + alias.feed(b"", final=True)
    assert host not in out
    assert out == whole.replace(host, b"/mnt/user-data").replace(b"/srv/home", b"~")


@given(st.text(max_size=50), st.integers(0, 8), st.integers(0, 8))
def test_readable_cuts_whole_characters(text: str, front: int, back: int) -> None:
    data = text.encode()
    cut = data[front : len(data) - back]
    shown = readable(cut, cut_start=True, cut_end=True)
    assert "\\x" not in shown or "\\x" in text or "\0" in text
    assert shown.replace("\\x00", "\0") in text or "\\x" in text
