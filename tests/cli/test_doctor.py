"""`deerflow doctor`: each part by itself, each failure with its cure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deerflow.cli.doctor import examine
from fakes.terminal import Desk


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEER_FLOW_HOME", raising=False)
    monkeypatch.delenv("DEER_FLOW_CONFIG_PATH", raising=False)
    desk = Desk(tmp_path)
    desk.write([{"text": "Hi."}])
    return desk


def report(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, dict[str, Any]]]:
    code = examine(None, as_json=True)
    return code, {line["name"]: line for line in json.loads(capsys.readouterr().out)}


def test_a_sound_machine(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = report(capsys)
    assert code == 0
    names = {"deerflow", "configuration", "home", "storage", "sandbox", "sandbox python", "model"}
    assert found.keys() == names
    assert found["configuration"]["text"] == str(desk.folder / "config.yaml")
    assert found["home"]["text"] == str(desk.folder / ".deer-flow")
    assert found["sandbox"]["mark"] == "warn"  # the one in memory isolates nothing
    assert found["sandbox python"]["cure"] == "Run `deerflow sandbox build`."
    assert found["model"]["text"].startswith("scripted (")


def test_lines_for_people(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    assert examine(None, as_json=False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("✓ deerflow: ")
    assert "! sandbox python: not built" in lines
    assert lines[lines.index("! sandbox python: not built") + 1] == (
        "    Run `deerflow sandbox build`."
    )


def test_one_failure_does_not_hide_another(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    data = desk.folder / ".deer-flow" / "data"
    data.mkdir(parents=True)
    (data / "deerflow.db").write_bytes(b"no database " * 500)
    (desk.folder / "config.yaml").write_text(
        "models: [{name: m, use: 'nowhere:Class'}]\nsandbox: {use: memory}\nnonsense: 1\n"
    )
    code = examine(None, as_json=True)
    lines = json.loads(capsys.readouterr().out)
    failed = {line["name"]: line for line in lines if line["mark"] == "fail"}
    assert code == 1
    assert failed.keys() == {"storage", "model"}
    assert failed["storage"]["cure"]
    assert "nowhere" in failed["model"]["text"]
    warned = [line["text"] for line in lines if line["mark"] == "warn"]
    assert any("nonsense" in text for text in warned)


def test_a_damaged_model_file(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    (desk.folder / "bad.gguf").write_bytes(b"GGUF, but cut")
    (desk.folder / "config.yaml").write_text(
        "models: [{name: m, use: local, path: bad.gguf}]\nsandbox: {use: memory}\n"
    )
    code, found = report(capsys)
    assert (code, found["model"]["mark"]) == (1, "fail")
    assert found["model"]["text"] == "The model file bad.gguf is damaged."
    assert found["model"]["cure"] == "Run `deerflow models pull`."


def test_a_broken_configuration(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    (desk.folder / "config.yaml").write_text("max_turns: many\nmodels: 3\n")
    code = examine(None, as_json=True)
    lines = json.loads(capsys.readouterr().out)
    assert code == 2
    assert [line["mark"] for line in lines] == ["ok", "fail", "fail"]
    assert not (desk.folder / ".deer-flow").exists()
