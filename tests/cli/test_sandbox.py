"""`deerflow sandbox build|status`, as a user types them."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from deerflow.cli.sandbox import app
from deerflow.errors import ConfigError
from deerflow.sandbox.python import BASES, python_folder, read_manifest


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a configuration that asks for no packages and no processes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DEER_FLOW_CONFIG_PATH", raising=False)
    monkeypatch.setenv("DEER_FLOW_HOME", str(tmp_path / "home"))
    (tmp_path / "config.yaml").write_text(
        "models: [{name: m, use: 'deerflow.models.scripted:ScriptedChatModel', model: m}]\n"
        "sandbox: {use: memory, python: {packages: []}}\n",
        encoding="utf-8",
    )
    return tmp_path / "home"


@pytest.mark.skipif(not any(base.exists() for base in BASES), reason="no system Python below /usr")
def test_build_then_status(home: Path) -> None:
    before = CliRunner().invoke(app, ["status"], catch_exceptions=False)
    assert before.exit_code == 0
    assert "isolation: memory" in before.stdout
    assert "python: not built; run `deerflow sandbox build`" in before.stdout
    built = CliRunner().invoke(app, ["build"], catch_exceptions=False)
    assert built.exit_code == 0
    assert built.stdout == ""
    assert "The sandbox's Python is ready: Python 3." in built.stderr
    assert read_manifest(python_folder(home)) is not None
    again = CliRunner().invoke(app, ["build"], catch_exceptions=False)
    assert "is up to date" in again.stderr
    after = CliRunner().invoke(app, ["status"], catch_exceptions=False)
    assert "python: Python 3." in after.stdout


def test_a_broken_configuration_builds_nothing(home: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("sandbox: {python: {packages: 7}}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="packages"):
        CliRunner().invoke(app, ["build", "--config", str(broken)], catch_exceptions=False)
    assert not home.exists()
