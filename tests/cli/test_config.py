"""`deerflow config`: exit codes, masked secrets, the sample."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from deerflow.cli.config import app

cli = CliRunner()


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEER_FLOW_CONFIG_PATH", raising=False)


def test_check_without_a_file_is_fine() -> None:
    result = cli.invoke(app, ["check"])
    assert (result.exit_code, result.stdout) == (0, "embedded defaults: ok\n")


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("max_turns: 5\n", 0, ""),
        ("max_recursion_limit: 5\n", 0, "no effect"),
        ("max_turn: 5\n", 2, "did you mean max_turns?"),
        ("max_turns: x\n", 2, "config.yaml:1: max_turns"),
        ("a: [\n", 2, "broken YAML"),
    ],
)
def test_check(text: str, code: int, said: str) -> None:
    Path("config.yaml").write_text(text)
    result = cli.invoke(app, ["check"])
    assert result.exit_code == code
    assert said in result.stderr
    assert ("ok" in result.stdout) == (code == 0)


def test_check_a_given_file() -> None:
    Path("other.yaml").write_text("max_turns: x\n")
    for arguments in (["check", "other.yaml"], ["check", "--config", "other.yaml"]):
        result = cli.invoke(app, arguments)
        assert result.exit_code == 2
        assert "other.yaml:1: max_turns" in result.stderr


def test_show_resolves_and_masks() -> None:
    Path(".env").write_text("KEY=s3cret\nTURNS=7\n")
    Path("config.yaml").write_text(
        "max_turns: $TURNS\nmodels:\n- {name: a, model: 'openai:b', api_key: $KEY}\n"
    )
    result = cli.invoke(app, ["show"])
    assert result.exit_code == 0
    assert "max_turns: 7" in result.stdout
    assert "config.yaml" in result.stdout.splitlines()[0]
    assert "s3cret" not in result.output


def test_the_sample_can_be_checked() -> None:
    written = cli.invoke(app, ["sample"])
    assert written.exit_code == 0
    Path("config.yaml").write_text(written.stdout)
    assert cli.invoke(app, ["check"]).exit_code == 0
