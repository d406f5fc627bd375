"""Documents become Markdown; hostile ones fail alone."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from deerflow.gateway.documents.convert import Bounds, Converted, can_convert, to_markdown
from fakes.gateway import until
from fakes.papers import docx, pdf

USUAL = Bounds()
BOMB = docx("", bomb=60_000_000)
TIGHT = Bounds(memory=256 * 1024 * 1024)


async def converted(tmp_path: Path, name: str, data: bytes, bounds: Bounds = USUAL) -> Converted:
    (tmp_path / "document").write_bytes(data)
    fd = os.open(tmp_path / "document", os.O_RDONLY)
    try:
        return await to_markdown(fd, name, "auto", bounds)
    finally:
        os.close(fd)


def test_what_is_a_document() -> None:
    names = ["a.pdf", "B.DOCX", "c.pptx", "d.xlsx", "e.epub"]
    assert all(can_convert(name) for name in names)
    assert not any(can_convert(name) for name in ("a.txt", "pdf", ".pdf", "a.pdf.zip", "a.doc"))


async def test_pdf_page_by_page(tmp_path: Path) -> None:
    found = await converted(tmp_path, "a.pdf", pdf("Hello", "World"))
    assert found == Converted(b"## Page 1\n\nHello\n\n## Page 2\n\nWorld\n\n")


async def test_word(tmp_path: Path) -> None:
    assert await converted(tmp_path, "A.DOCX", docx("A title")) == Converted(b"# A title\n")


@pytest.mark.parametrize(
    ("name", "data", "bounds", "error"),
    [
        ("a.docx", BOMB, TIGHT, "memory"),
        ("a.pdf", b"%PDF-1.4 nonsense", USUAL, "damaged"),
        ("a.docx", b"PK nonsense", USUAL, "damaged"),
        ("a.pdf", pdf(""), USUAL, "no text"),
        ("a.pdf", pdf(*["x" * 50] * 50), Bounds(text=1_000), "too much text"),
        ("a.pdf", pdf("x"), Bounds(memory=1_000_000), ""),
    ],
    ids=["bomb", "no pdf", "no word", "scan", "long", "no memory at all"],
)
async def test_failures(name: str, data: bytes, bounds: Bounds, error: str, tmp_path: Path) -> None:
    found = await converted(tmp_path, name, data, bounds)
    assert found.text == b""
    assert found.error
    assert error in found.error


async def test_time_is_bounded_and_nothing_is_left_running(tmp_path: Path) -> None:
    begun = time.monotonic()
    found = await converted(tmp_path, "a.docx", BOMB, Bounds(seconds=1))
    assert time.monotonic() - begun < 5
    assert found.error == "it takes too long"
    assert _children() == []


async def test_a_cancelled_conversion_leaves_nothing_running(tmp_path: Path) -> None:
    task = asyncio.create_task(converted(tmp_path, "a.docx", BOMB))
    await until(lambda: bool(_children()))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert _children() == []


def _children() -> list[str]:
    """Command lines of our converters."""
    found: list[str] = []
    for pid in os.listdir("/proc"):
        if not pid.isdigit():
            continue
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                stat = file.read().rpartition(")")[2].split()
            with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
                line = file.read().replace("\0", " ")
        except OSError:
            continue
        # its own child has another parent, but its session
        if "gateway.documents.child" in line and stat[0] != "Z" and _ours(int(stat[3])):
            found.append(line)
    return found


def _ours(session: int) -> bool:
    try:
        with open(f"/proc/{session}/stat", encoding="utf-8") as file:
            return int(file.read().rpartition(")")[2].split()[1]) == os.getpid()
    except OSError:
        return False
