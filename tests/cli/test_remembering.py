"""The end of `deerflow run`: the memory is brought up to date, or says what is left."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.terminal import Desk, Screen

SCRIPTED = "deerflow.models.scripted:ScriptedChatModel"
FACT = {"content": "Lives in Oslo.", "category": "context", "confidence": 0.9}
WAITS = "1 exchange waits to be remembered; the next run goes on with it."


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.close()


def write(desk: Desk, extract: dict[str, Any], **memory: Any) -> None:
    """Models for runs and for the memory."""
    models = [
        {"name": "main", "use": SCRIPTED, "script": [{"text": "Noted.", "times": 9}]},
        {"name": "extractor", "use": SCRIPTED, "script": [extract]},
    ]
    backend = {"model_name": "extractor", "debounce_seconds": 3600, "max_wait_seconds": 7200}
    desk.write([], models=models, memory={"backend_config": backend, **memory})


def facts(desk: Desk) -> list[str]:
    files = list((desk.folder / ".deer-flow").rglob("memory.json"))
    return [fact["content"] for file in files for fact in json.loads(file.read_text())["facts"]]


def test_a_run_brings_its_own_exchange_into_the_memory(desk: Desk) -> None:
    write(desk, {"text": json.dumps({"facts": [FACT]})})
    ended = desk.run("run", "I live in Oslo.")
    assert (ended.code, ended.out) == (0, "Noted.\n")
    assert "remember" not in ended.err.lower()
    assert facts(desk) == ["Lives in Oslo."]


def test_p14_what_one_run_leaves_the_next_takes(desk: Desk) -> None:
    write(desk, {"text": json.dumps({"facts": [FACT]})})
    first = desk.run("run", "I live in Oslo.", "--no-memory-wait")
    assert (first.code, first.err) == (0, "")
    assert facts(desk) == []
    second = desk.run("run", "Thanks!")
    assert (second.code, second.err) == (0, "")
    assert facts(desk) == ["Lives in Oslo."]


def test_a_failing_extraction_changes_nothing_about_the_run(desk: Desk) -> None:
    write(desk, {"error": "auth"})
    ended = desk.run("run", "I live in Oslo.")
    assert (ended.code, ended.out) == (0, "Noted.\n")
    assert WAITS in ended.err
    assert "Traceback" not in ended.err


def test_p14_a_slow_extraction_is_cut_off_and_told(desk: Desk) -> None:
    write(desk, {"text": "{}", "delay_ms": 600_000}, shutdown_flush_timeout_seconds=1)
    ended = desk.run("run", "I live in Oslo.")
    assert (ended.code, ended.out) == (0, "Noted.\n")
    assert WAITS in ended.err


def test_on_a_terminal_it_says_what_it_waits_for_and_a_signal_ends_that(desk: Desk) -> None:
    write(desk, {"text": "{}", "delay_ms": 600_000}, shutdown_flush_timeout_seconds=600)
    screen = Screen(desk, "run", "I live in Oslo.")
    screen.until("Remembering what was said")
    assert "Noted." in screen.plain, "the answer comes first"
    screen.process.send_signal(signal.SIGINT)
    assert screen.end() == 0
    assert WAITS in screen.plain


def test_with_memory_off_nothing_is_queued(desk: Desk) -> None:
    write(desk, {"error": "script"}, enabled=False)
    ended = desk.run("run", "I live in Oslo.", "--json")
    assert "memory_queued" not in {event["type"] for event in ended.events}
    assert ended.err == ""


def test_a_scripted_or_compact_default_extracts_nothing(desk: Desk) -> None:
    desk.write([{"text": "Noted."}])
    ended = desk.run("run", "I live in Oslo.", "--json")
    assert (ended.code, ended.err) == (0, "")
    assert "memory_queued" not in {event["type"] for event in ended.events}
