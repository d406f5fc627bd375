"""Reports of exams as a reader sees them: opened in headless Chromium."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deerflow.cli.app import app
from deerflow.exam.contract import write_results
from fakes.browser import DESK, PHONE, Drawing, opened
from fakes.exams import KEYS, SIX, dataset_file, result_file, told

STATES = ["accepted", "accepted", "exhausted", "accepted", "unvalidated", "validator_error"]
LONG = "a-framework-of-a-name-without-any-place-to-break-" * 4


def exam(*arguments: str | Path) -> None:
    done = CliRunner().invoke(app, ["exam", *map(str, arguments)])
    assert done.exit_code == 0, done.output


def one(folder: Path) -> Path:
    """The page in a folder."""
    (page,) = folder.glob("*.html")
    return page


def arms(folder: Path) -> list[Path]:
    """Result files of two arms that differ in two answers, and told of costs and confidence."""
    raw = [
        told(state, confidence={"stated": 0.5 + place / 12, "agreement": 1.0})
        for place, state in enumerate(STATES)
    ]
    files: list[Path] = []
    for name, responses in (("A0", ["A", *KEYS[1:5], "no idea"]), ("A5", KEYS)):
        file = folder / f"{name}.json"
        write_results(file, result_file(responses, raw=raw, framework=f"{LONG}{name}"))
        files.append(file)
    return files


def graded(folder: Path) -> Path:
    questions, [file, _] = dataset_file(folder, SIX), arms(folder)
    exam("grade", "--result", file, "--dataset", questions, "--report-dir", folder)
    return one(folder)


def compared(folder: Path) -> Path:
    questions = dataset_file(folder, SIX)
    exam("compare", *arms(folder), "--dataset", questions, "--report-dir", folder)
    return one(folder)


def simulated(folder: Path) -> Path:
    exam("simulate", "--out", folder, "--questions", "16", "--repeat", "2")
    return one(folder)


def is_readable(drawing: Drawing) -> bool:
    wide, high = drawing.size
    return (
        min(wide, high) > 40
        and bool(drawing.caption)
        and len(drawing.texts) > 1
        and drawing.marks > 0
        and (drawing.hidden, drawing.outside) == ([], [])
    )


@pytest.mark.parametrize(("page", "plots"), [(graded, 6), (compared, 8), (simulated, 8)])
async def test_a_report_is_read(tmp_path: Path, page: Callable[[Path], Path], plots: int) -> None:
    file = await asyncio.to_thread(page, tmp_path)
    async with opened(file) as shown:
        for width in (DESK, PHONE):
            assert await shown.overhang(width) <= 0
            drawings = await shown.drawings()
            assert len(drawings) >= plots
            assert [each for each in drawings if not is_readable(each)] == []
        light, dark = await shown.colours("light"), await shown.colours("dark")
        assert light[0] != dark[0] and light[1] != dark[1]
        assert {ink for each in await shown.drawings() for ink in each.ink}.isdisjoint(dark[:1])
        assert shown.requests == [file.as_uri()]
        assert shown.complaints == []


async def test_what_is_broken_is_seen(tmp_path: Path) -> None:
    """The looks above can fail: a page with each fault."""
    file = tmp_path / "page.html"
    file.write_text(
        "<style>body{margin:0}</style><div style='width:900px'>wide</div>"
        "<img src='http://example.test/dot.png'><script>console.error('oh')</script>"
        "<figure><svg viewBox='0 0 10 10' width='0' height='0'><text>a</text></svg></figure>"
        "<figure><svg viewBox='0 0 100 100' width='100' height='100'>"
        "<text x='0' y='50' visibility='hidden'>b</text><rect x='90' width='20' height='5'/>"
        "</svg></figure>",
        encoding="utf-8",
    )
    async with opened(file) as shown:
        assert await shown.overhang(PHONE) > 0
        none, cut = await shown.drawings()
        assert none.size == (0, 0) and none.caption == ""
        assert cut.hidden == ["b"] and "rect" in cut.outside[0]
        assert not is_readable(none) and not is_readable(cut)
        light, dark = await shown.colours("light"), await shown.colours("dark")
        assert light == dark
        assert shown.requests[1:] == ["http://example.test/dot.png"]
        assert "oh" in shown.complaints
