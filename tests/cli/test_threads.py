"""`deerflow threads`: list, show, delete."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deerflow.cli.run import RunOptions, run
from deerflow.cli.threads import delete_one, show_list, show_one
from deerflow.errors import NotFoundError
from deerflow.runtime.request import RunRequest
from fakes.terminal import Desk, Screen

SCRIPT = [
    {"text": "I count.", "calls": [{"name": "calculator", "args": {"expression": "1+1"}}]},
    {"text": "Two \x1b[31mdeer."},
]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEER_FLOW_HOME", raising=False)
    monkeypatch.delenv("DEER_FLOW_CONFIG_PATH", raising=False)
    desk = Desk(tmp_path)
    desk.write(SCRIPT)
    return desk


def test_a_home_without_threads_stays_away(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    assert show_list(None, 50, as_json=False) == 0
    assert show_list(None, 50, as_json=True) == 0
    assert capsys.readouterr() == ("", "No threads yet.\n")
    with pytest.raises(NotFoundError):
        show_one(None, "t", as_json=False)
    with pytest.raises(NotFoundError):
        delete_one(None, "t")
    assert not (desk.folder / ".deer-flow").exists()


def test_list_show_delete(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    for thread in ("one", "two"):
        options = RunOptions(RunRequest(task="Count the deer", thread_id=thread))
        assert run(options) == 0
    capsys.readouterr()

    assert show_list(None, 50, as_json=False) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [(row[0], row[2], row[3]) for row in rows] == [
        ("two", "idle", "Count the deer"),
        ("one", "idle", "Count the deer"),
    ]
    assert show_list(None, 1, as_json=True) == 0
    (record,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert record["thread_id"] == "two"
    assert record.keys() == {"thread_id", "title", "status", "created_at", "updated_at"}

    assert show_one(None, "one", as_json=False) == 0
    assert capsys.readouterr().out.splitlines() == [
        "You: Count the deer",
        "DeerFlow: I count.",
        "  ✓ calculator 1+1  → 2",
        "DeerFlow: Two \x1b[31mdeer.",  # piped, the text is what the model wrote
        "",
    ]
    assert show_one(None, "one", as_json=True) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))

    assert delete_one(None, "one") == 0
    with pytest.raises(NotFoundError):
        show_one(None, "one", as_json=False)


def test_a_table_on_a_terminal(desk: Desk) -> None:
    assert run(RunOptions(RunRequest(task="Count the deer", thread_id="t"))) == 0
    screen = Screen(desk, "threads", "list")
    assert screen.end() == 0
    assert "thread" in screen.plain
    assert "Count the deer" in screen.plain
