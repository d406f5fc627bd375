"""`deerflow exam frameworks`: what is listed, refused and run."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from deerflow.exam.contract import read_results
from fakes.exam_endpoint import ExamEndpoint
from fakes.exams import SIX, dataset_file
from fakes.seats import pretend
from fakes.terminal import Desk, Ended

HOME = ".deer-flow"
NOWHERE = "http://127.0.0.1:9/v1"


def frameworks(folder: Path, *words: str, **env: str) -> Ended:
    return Desk(folder).run("exam", "frameworks", *words, **env)


def sit(folder: Path, name: str, url: str = NOWHERE) -> Ended:
    dataset = dataset_file(folder, SIX)
    options = ("--dataset", str(dataset), "--out", "out", "--base-url", url, "--model", "mock")
    return frameworks(folder, "run", name, *options)


def test_the_list_says_what_is_installed(tmp_path: Path) -> None:
    pretend(tmp_path / HOME, "langgraph")
    done = frameworks(tmp_path, "list")
    assert done.code == 0
    lines = done.out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "langgraph",
        "openai-agents",
        "google-adk",
        "crewai",
    ]
    assert [line.rpartition("; ")[2] for line in lines] == ["installed"] + ["not installed"] * 3
    assert all(" lines of code; " in line for line in lines)


def test_what_is_not_installed_is_refused(tmp_path: Path) -> None:
    done = sit(tmp_path, "openai-agents")
    assert (done.code, done.out) == (2, "")
    assert "deerflow exam frameworks install openai-agents" in done.err
    pretend(tmp_path / HOME, "langgraph")
    done = sit(tmp_path, "all")
    assert done.code == 2 and "OpenAI Agents SDK is not installed" in done.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("words", [("run", "autogen"), ("install", "autogen")])
def test_another_name_is_refused(tmp_path: Path, words: tuple[str, str]) -> None:
    done = sit(tmp_path, words[1]) if words[0] == "run" else frameworks(tmp_path, *words)
    assert done.code == 2 and "There is no framework 'autogen'" in done.err


def test_a_url_is_wanted(tmp_path: Path) -> None:
    pretend(tmp_path / HOME, "langgraph")
    done = sit(tmp_path, "langgraph", "localhost:8000")
    assert done.code == 2 and "'localhost:8000' is no URL" in done.err


def test_what_is_installed_is_not_installed_again(tmp_path: Path) -> None:
    pretend(tmp_path / HOME, "crewai")
    done = frameworks(tmp_path, "install", "crewai")
    assert (done.code, done.out) == (0, "crewai: installed already\n")


async def test_an_exam_in_a_framework_and_one_of_ours_are_compared(tmp_path: Path) -> None:
    pretend(tmp_path / HOME, "langgraph")
    desk = Desk(tmp_path)
    async with ExamEndpoint() as endpoint:
        model = {"name": "mock", "model": "openai:mock", "base_url": endpoint.base_url}
        desk.write([], models=[{**model, "api_key": "none"}])
        theirs = await asyncio.to_thread(sit, tmp_path, "langgraph", endpoint.base_url)
        options = ("--arm", "A2", "--workers", "1", "--dataset", "questions.json", "--out", "ours")
        ours = await asyncio.to_thread(desk.run, "exam", "run", *options)
    assert theirs.code == 0, theirs.err
    assert theirs.out.startswith("langgraph: 6 of 6 answers accepted, ")
    assert "langgraph [6/6] " in theirs.err
    assert ours.code == 0, ours.err
    assert len(read_results(tmp_path / "out" / "results.json").results) == 6
    folders = ("ours", "out", "--dataset", "questions.json", "--report-dir", "report")
    done = await asyncio.to_thread(desk.run, "exam", "compare", *folders)
    assert done.code == 0, done.err
    first, second = done.out.splitlines()[:2]
    assert first.startswith("deerflow A2: ") and second.startswith("langgraph A2: ")
    assert all(
        " lines of code, 12 calls, " in line and " wall " in line for line in (first, second)
    )
    (report,) = (tmp_path / "report").glob("*.md")
    assert "\n## Effort\n" in report.read_text("utf-8")


def test_one_that_fails_does_not_keep_the_others_back(tmp_path: Path) -> None:
    for name in ("langgraph", "openai-agents", "google-adk", "crewai"):
        there = pretend(tmp_path / HOME, name)
        there.python.write_text(f"#!/bin/sh\necho {name} is broken >&2\nexit 1\n")
    done = sit(tmp_path, "all")
    assert (done.code, done.out) == (1, "")
    assert "langgraph is broken" in done.err and "crewai is broken" in done.err


def test_a_signal_ends_the_program_too(tmp_path: Path) -> None:
    there = pretend(tmp_path / HOME, "langgraph")
    there.python.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\necho begun\nexec sleep 600\n")
    dataset = dataset_file(tmp_path, SIX)
    options = ("--dataset", str(dataset), "--out", "out", "--base-url", NOWHERE, "--model", "m")
    desk = Desk(tmp_path)
    process = desk.start("exam", "frameworks", "run", "langgraph", *options)
    try:
        assert process.stderr is not None
        assert process.stderr.readline() == "langgraph begun\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    finally:
        desk.close()
    assert (process.returncode, out, err) == (130, "", "Stopped.\n")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
