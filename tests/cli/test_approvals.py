"""`deerflow approvals`: what waits, decisions, and the run that goes on in the foreground."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deerflow.cli.decide import Choice, decide_one, show_list
from deerflow.cli.run import RunOptions, run
from deerflow.errors import NotFoundError, UsageError
from deerflow.runtime.request import RunRequest
from fakes.approving import call, guarded
from fakes.terminal import SCRIPTED, Desk

SCRIPT = [
    {
        "text": "I write both.",
        "calls": [
            call("write_file", path="/mnt/user-data/workspace/a.txt", content="A"),
            call("write_file", path="/mnt/user-data/workspace/b.txt", content="B"),
        ],
    },
    {"text": "Both are settled."},
]
POLICY = guarded({"tools": "write_file", "decision": "ask", "reason": "it writes"})


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEER_FLOW_HOME", raising=False)
    monkeypatch.delenv("DEER_FLOW_CONFIG_PATH", raising=False)
    desk = Desk(tmp_path)
    model = {"name": "scripted", "use": SCRIPTED, "script": SCRIPT, "follow": "transcript"}
    desk.write(SCRIPT, models=[model], guardrails=POLICY)
    return desk


def resume() -> int:
    return run(RunOptions(RunRequest(thread_id="my thread", resume=True)))


def waiting(capsys: pytest.CaptureFixture[str], everything: bool = False) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert show_list(None, everything=everything, as_json=True) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def start() -> None:
    assert run(RunOptions(RunRequest(task="Write", thread_id="my thread"))) == 3


def approve(ident: str, args: str | None = None, *, go_on: bool = True) -> int:
    return decide_one(ident, Choice("approved", args=args), None, go_on=go_on)


def reject(ident: str, reason: str = "", *, go_on: bool = True) -> int:
    return decide_one(ident, Choice("rejected", reason=reason), None, go_on=go_on)


def test_a_home_without_stores_stays_away(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    assert show_list(None, everything=False, as_json=False) == 0
    assert capsys.readouterr() == ("", "Nothing waits for you.\n")
    with pytest.raises(NotFoundError):
        approve("abcdef")
    assert not (desk.folder / ".deer-flow").exists()


def test_the_run_says_what_waits_and_how_to_decide(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    start()
    told = capsys.readouterr()
    assert told.out == "I write both.\n"
    first, second = waiting(capsys)
    assert "2 calls wait for approval:" in told.err
    for row in (first, second):
        assert f"  {row['approval_id'][:8]}  write_file " in told.err
    assert "it writes" in told.err
    assert f"deerflow approvals approve {first['approval_id'][:8]}" in told.err
    assert first["args"] == {"path": "/mnt/user-data/workspace/a.txt", "content": "A"}
    assert (first["thread_id"], first["agent"], first["status"]) == ("my thread", "lead", "pending")
    assert resume() == 3  # nothing was decided: it says the same again
    again = capsys.readouterr()
    assert again.err == told.err


def test_each_decision_goes_on_at_once(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    start()
    first, second = (row["approval_id"] for row in waiting(capsys))
    assert approve(first[:8]) == 3
    told = capsys.readouterr()
    assert "is approved." in told.err
    assert "Waiting for your approval:" in told.err
    assert second[:8] in told.err
    assert reject(second, "b is not needed") == 0
    told = capsys.readouterr()
    assert told.out == "Both are settled.\n"
    assert waiting(capsys) == []
    rows = waiting(capsys, everything=True)
    assert [(row["status"], row["decided_by"], row["note"]) for row in rows] == [
        ("approved", "local", ""),
        ("rejected", "local", "b is not needed"),
    ]
    assert show_list(None, everything=True, as_json=False) == 0
    assert "rejected by local" in capsys.readouterr().out


def test_no_run_only_records(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    start()
    first, second = (row["approval_id"] for row in waiting(capsys))
    new = {"path": "/mnt/user-data/workspace/c.txt", "content": "C"}
    assert approve(first, json.dumps(new), go_on=False) == 0
    assert "deerflow run --thread 'my thread' --resume" in capsys.readouterr().err
    assert reject(second, go_on=False) == 0
    assert [row["edited"] for row in waiting(capsys, everything=True)] == [new, None]
    assert resume() == 0
    assert capsys.readouterr().out == "Both are settled.\n"


def test_a_second_decision_is_told_and_changes_nothing(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    start()
    first = waiting(capsys)[0]["approval_id"]
    assert approve(first, go_on=False) == 0
    capsys.readouterr()
    assert approve(first) == 0
    assert "was approved already by local; nothing was changed" in capsys.readouterr().err
    assert reject(first, "no") == 1
    assert approve(first, "{}") == 1
    assert waiting(capsys, everything=True)[0]["status"] == "approved"


def test_a_decision_after_a_new_message_says_so(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    start()
    first = waiting(capsys)[0]["approval_id"]
    run(RunOptions(RunRequest(task="Never mind", thread_id="my thread")))
    capsys.readouterr()
    assert approve(first) == 1
    assert "superseded by a new message" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ident", "args", "error"),
    [
        ("feedbeef", None, NotFoundError),
        ("abc", None, UsageError),
        ("", None, UsageError),
        ("\udcff" * 8, None, UsageError),
        (None, "{", UsageError),
        (None, "[1]", UsageError),
        (None, json.dumps({"x": "y" * 1_100_000}), UsageError),
    ],
)
def test_bad_input_changes_nothing(
    desk: Desk, capsys: pytest.CaptureFixture[str], ident: str | None, args: str | None, error: Any
) -> None:
    start()
    first = waiting(capsys)[0]["approval_id"]
    with pytest.raises(error):
        approve(first if ident is None else ident, args)
    with pytest.raises(UsageError):
        reject(first, "x" * 3_000)
    assert len(waiting(capsys)) == 2


def test_the_command_line(desk: Desk) -> None:
    shown = desk.run("approvals", "--help")
    assert shown.code == 0
    for name in ("list", "approve", "reject"):
        assert name in shown.out
    missing = desk.run("approvals", "approve", "feedbeef")
    assert missing.code == 2
    assert "There is no approval 'feedbeef' here." in missing.err
