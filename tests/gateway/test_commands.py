from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from deerflow.gateway.commands import app


@pytest.mark.parametrize("command", ["serve", "gateway", "worker", "users"])
def test_commands_that_serve_are_listed_and_explained(command: str) -> None:
    runner = CliRunner()
    assert command in runner.invoke(app, ["--help"]).output
    assert runner.invoke(app, [command, "--help"]).exit_code == 0


def test_help_loads_no_web_framework_and_no_model_library() -> None:
    code = (
        "import sys\nfrom deerflow.gateway.commands import app\n"
        "from typer.testing import CliRunner\nCliRunner().invoke(app, ['--help'])\n"
        "print([m for m in ('fastapi', 'starlette', 'uvicorn', 'argon2', 'langchain_core', 'dbos',"
        " 'sqlalchemy') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_a_worker_without_a_shared_database_is_refused(tmp_path, monkeypatch) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("database: {backend: memory}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["worker", "--config", str(file)])
    assert result.exit_code == 2
    assert "database that others reach" in result.output
