"""The examples run as they stand, with the scripted model that lies beside them."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from fakes.tree import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("[0-9][0-9]_*.py"))
LINES = 60
PRINTED = {
    "01_hello": ["success - 6 times 7 is 42."],
    "02_own_tool": ['<untrusted-content source="weather">', "rain, 12 °C", "Take an umbrella."],
    "03_own_middleware": ["Good morning.", "GOOD MORNING"],
    "04_test_your_agent": ["passed"],
    "05_sandbox": ["note.txt [0]", "/mnt/user-data/outputs [0]", "read: hello"],
    "06_events": ["1 run_started", "calls calculator", "success, ", "again:   2 human:"],
    "07_resume": ["first: cancelled", "then: success - Deer eat plants.", "the same run: True"],
    "08_helpers": ["asks a helper: count", "the helper says: 12", "12 in the north park."],
    "09_memory": ["kept: {'favourite animal': 'red deer', 'units'", "now: roe deer", "The roe"],
    "10_approval": [
        "first: interrupted",
        "rm -r drafts",
        "decided: approved",
        "then: The drafts are gone.",
    ],
    "11_batch": ["All three are translated.", "done: 3 of 3"],
    "12_client": ["models: ['scripted']", "thread: sums - Sums", "human: How much", "left: 0"],
    "13_goal": ["goal: active 0", "The red deer", "The roe deer", "goal: done 1"],
    "14_reconcile": ["1003: refuted", "1004: verified", "accepted: 1002, 1003 and 1004"],
    "15_invoice": ["2026-03-01", "examiner: ", "False", "2026-03-31", "accepted after 2 answers"],
}
"""What each example prints, among other things, in this order."""


@pytest.fixture(autouse=True)
def around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The configuration of the examples, and a home of their own."""
    monkeypatch.setenv("DEER_FLOW_CONFIG_PATH", str(ROOT / "examples" / "scripted.yaml"))
    monkeypatch.setenv("DEER_FLOW_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def test_they_are_numbered_without_gaps_and_each_is_checked() -> None:
    assert [int(file.name[:2]) for file in EXAMPLES] == list(range(1, len(EXAMPLES) + 1))
    assert [file.stem for file in EXAMPLES] == list(PRINTED)


def test_they_are_short() -> None:
    lines = {file.name: file.read_text(encoding="utf-8").count("\n") for file in EXAMPLES}
    assert {name: count for name, count in lines.items() if count > LINES} == {}


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_it_runs(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(file), run_name="__main__")
    printed = capsys.readouterr().out
    position = 0
    for part in PRINTED[file.stem]:
        position = printed.find(part, position)
        assert position >= 0, f"{part!r} is missing in:\n{printed}"


def test_the_sandbox_keeps_the_host_out(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "05_sandbox.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert re.search(r"^\$ cat /etc/shadow\n.*\[1\]$", printed, re.MULTILINE)
    assert "root:" not in printed


def test_the_first_one_runs_as_a_program_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "01_hello.py")],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{PRINTED['01_hello'][0]}\n", "")
