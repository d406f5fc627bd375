"""`deerflow run` as a process: answers, files, events, exit codes, locale, stopping."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.terminal import Desk, Screen, catches

NOTE = "/mnt/user-data/outputs/note.md"
WRITES = [
    {
        "text": "I write it first.",
        "calls": [{"name": "write_file", "args": {"path": NOTE, "content": "# Deer\n"}}],
        "usage": {"input": 1000, "output": 20},
    },
    {"text": "Grüße, 你好: it is in **note.md**."},
]
SLOW = [{"text": "word " * 400, "gap_ms": 100}]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.close()


def gapless(events: list[dict[str, Any]]) -> bool:
    return [event["seq"] for event in events] == list(range(1, len(events) + 1))


def lines_until(process: subprocess.Popen[str], type: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    assert process.stdout is not None
    for line in process.stdout:
        events.append(json.loads(line))
        if events[-1]["type"] == type:
            return events
    raise AssertionError(f"no event {type}")


def wait_for(home: Path, name: str) -> str:
    """The content of a file that a command below home is about to write."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for folder, _, files in os.walk(home):  # unlike rglob, folders may go while it looks
            if name in files and (text := Path(folder, name).read_text().strip()):
                return text
        time.sleep(0.05)
    raise AssertionError(f"no file {name}")


def test_piped_the_answer_alone_is_on_stdout(desk: Desk) -> None:
    desk.write(WRITES, sandbox="host")
    ended = desk.run("run", "Write note.md", "--expect", "note.md")
    assert ended.code == 0
    assert ended.out == "Grüße, 你好: it is in **note.md**.\n"
    listed = ended.err.splitlines()
    assert listed[0] == "Artifacts:"
    path = Path(listed[1].strip().split("  (")[0])
    assert path.is_absolute()
    assert path.read_text() == "# Deer\n"
    assert "\x1b" not in ended.out + ended.err


def test_json_prints_every_event_of_the_thread(desk: Desk) -> None:
    desk.write([*WRITES, {"text": "Again."}], sandbox="host")
    first = desk.run("run", "Write note.md", "--json", "--thread", "t", stdin=b"")
    second = desk.run("run", "-", "--json", "--thread", "t", stdin="Noch mal, 你好".encode())
    assert (first.code, second.code) == (0, 0)
    events = [*first.events, *second.events]
    assert gapless(events)
    for event in events:
        assert {"seq", "type", "run_id", "thread_id", "created_at"} <= event.keys()
        assert event["thread_id"] == "t"
        assert event["created_at"].endswith("Z")
    assert len({event["run_id"] for event in events}) == 2
    assert second.events[0]["payload"]["input"] == "Noch mal, 你好"
    assert "Grüße, 你好" in first.out
    assert desk.run("threads", "show", "t", "--json").events == events


@pytest.mark.parametrize(
    ("script", "args", "code", "said"),
    [
        ([{"error": "auth"}], (), 1, "Failed: "),
        ([{"text": ""}, {"text": " "}], (), 1, "The model gave no answer."),
        ([{"text": "a"}, {"text": "b"}], ("--expect", "a.md"), 1, "Not delivered: /mnt/user-data"),
        (
            [{"calls": [{"name": "ask_clarification", "args": {"question": "Which deer?"}}]}],
            (),
            3,
            'Answer with: deerflow run "ANSWER" --thread t',
        ),
        (
            [
                {"calls": [{"name": "calculator", "args": {"expression": "1+1"}}]},
                {"text": "Not enough."},
            ],
            ("--max-turns", "1"),
            4,
            "Limit reached: max_turns (1 of 1).",
        ),
    ],
)
def test_p18_exit_codes(
    desk: Desk, script: Any, args: tuple[str, ...], code: int, said: str
) -> None:
    desk.write(script)
    ended = desk.run("run", "Go", "--thread", "t", *args)
    assert ended.code == code, ended.err
    assert said in ended.err
    assert "Traceback" not in ended.err
    if code == 3:
        assert ended.out == "Which deer?\n"


def test_a_model_that_cannot_be_built_is_a_bad_configuration(desk: Desk) -> None:
    desk.write([])
    file = desk.folder / "config.yaml"
    file.write_text(file.read_text().replace("deerflow.models.scripted", "langchain_nowhere"))
    ended = desk.run("run", "Go", "--thread", "my thread")
    assert ended.code == 2, ended
    assert "Failed: models.scripted.use: langchain_nowhere is not installed" in ended.err
    assert "deerflow run --thread 'my thread' --resume" in ended.err


@pytest.mark.parametrize(
    "locale",
    [
        {"LANG": "C", "LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "gbk"},
    ],
)
def test_utf8_whatever_the_locale(desk: Desk, locale: dict[str, str]) -> None:
    desk.write([{"text": "Grüße 你好 🦌"}])
    ended = desk.run("run", "Sag Grüße 🦌".encode(), "--thread", "ü".encode(), **locale)
    assert (ended.code, ended.out) == (0, "Grüße 你好 🦌\n")
    shown = desk.run("threads", "show", "ü".encode(), **locale)
    assert shown.out == "You: Sag Grüße 🦌\nDeerFlow: Grüße 你好 🦌\n\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_saves_and_says_how_to_go_on(desk: Desk, number: signal.Signals) -> None:
    desk.write(SLOW)
    process = desk.start("run", "Talk", "--json", "--thread", "t")
    before = lines_until(process, "message")
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    events = [*before, *(json.loads(line) for line in out.splitlines())]
    assert process.returncode == 130
    assert "Stopped; all is saved. Go on with: deerflow run --thread t --resume" in err
    assert "Traceback" not in err
    assert gapless(events)
    assert (events[-1]["type"], events[-1]["payload"]["status"]) == ("run_ended", "cancelled")
    desk.write([{"text": "Went on."}])
    resumed = desk.run("run", "--thread", "t", "--resume")
    assert (resumed.code, resumed.out) == (0, "Went on.\n")


def test_a_tool_is_stopped_as_well(desk: Desk) -> None:
    command = "echo $$ > pid; sleep 300"
    desk.write([{"calls": [{"name": "bash", "args": {"command": command}}]}], sandbox="host")
    process = desk.start("run", "Sleep", "--json", "--thread", "t")
    lines_until(process, "tool_started")
    written = wait_for(desk.folder / ".deer-flow", "pid")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert not Path(f"/proc/{written}").exists()


def test_a_signal_before_the_run_begins_leaves_nothing(desk: Desk) -> None:
    desk.write(SLOW)
    before = desk.tree()
    process = desk.start("run", "-")  # never gets its task
    deadline = time.monotonic() + 60
    while not catches(process.pid, signal.SIGTERM):  # until then it is Python that starts
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    assert desk.tree() == before


def test_a_reader_that_goes_away_ends_the_run_quietly(desk: Desk) -> None:
    desk.write(SLOW)
    process = desk.start("run", "Talk", "--json", "--thread", "t")
    assert process.stdout is not None
    assert process.stderr is not None
    assert json.loads(process.stdout.readline())["seq"] == 1
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.stdin is not None
    process.stderr.close()
    process.stdin.close()
    assert process.wait(60) == 130
    events = desk.run("threads", "show", "t", "--json").events
    assert gapless(events)
    assert events[-1]["payload"]["status"] == "cancelled"


def test_live_progress_on_a_terminal(desk: Desk) -> None:
    todos = [
        {"content": "Write the note", "status": "in_progress"},
        {"content": "Look at it", "status": "pending"},
    ]
    done = [{**todo, "status": "completed"} for todo in todos]
    script = [
        {"calls": [{"name": "write_todos", "args": {"todos": todos}}]},
        WRITES[0],
        {
            "calls": [
                {"name": "read_file", "args": {"path": "/mnt/user-data/outputs/none.md"}},
                {"name": "write_todos", "args": {"todos": done}},
            ],
        },
        {"text": "All \x1b[2Jdone now.", "gap_ms": 50},
    ]
    desk.write(script, sandbox="host")
    screen = Screen(desk, "run", "Write note.md")
    screen.until("Artifacts:")
    assert screen.end() == 0
    text = screen.plain
    for part in (
        "✓ write_todos 0 of 2 done",
        "▸ Write the note",
        "☐ Look at it",
        "· I write it first.",
        "✓ write_file outputs/note.md",
        "✗ read_file outputs/none.md",
        "turn 1 · ",
        "1,020 tokens",
        "── 4 turns · 4 tool calls",
        "note.md  (7 bytes)",
    ):
        assert part in text, f"{part!r} is missing in:\n{text}"
    assert text.index("── 4 turns") < text.rindex("done now.") < text.index("Artifacts:")
    assert "\x1b[2J" not in screen.text  # a model does not clear the user's screen
    assert "\x1b[32m" in screen.text
    assert screen.text.rindex("\x1b[?25h") > screen.text.rindex("\x1b[?25l")  # cursor is back


def test_no_color(desk: Desk) -> None:
    desk.write([WRITES[0], {"text": "Done."}], sandbox="host")
    screen = Screen(desk, "run", "Write note.md", NO_COLOR="1")
    assert screen.end() == 0
    assert "✓ write_file" in screen.plain
    assert not re.search(r"\x1b\[[0-9;]*[1-9][0-9;]*m", screen.text)


def test_ctrl_c_on_a_terminal(desk: Desk) -> None:
    desk.write(SLOW)
    screen = Screen(desk, "run", "Talk", "--thread", "t")
    screen.until("word word")
    screen.process.send_signal(signal.SIGINT)
    assert screen.end() == 130
    assert "Stopped; all is saved. Go on with: deerflow run --thread t --resume" in screen.plain
    assert "Traceback" not in screen.plain
