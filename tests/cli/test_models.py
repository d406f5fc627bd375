"""`deerflow models`: what it prints, and its exit codes."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from deerflow.cli.models import app
from deerflow.models.gguf import bundled
from fakes.hub import fake_hub
from fakes.llama import embedded_home

CONTENT = b"GGUF" + bytes(range(256)) * 40


def invoke(*arguments: str, cwd: Path, **environ: str) -> Result:
    cleared = {
        name: None
        for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "DEEPSEEK_API_KEY", "GEMINI_API_KEY")
    }
    env = {**cleared, "DEER_FLOW_HOME": str(cwd / "home"), **environ}
    return CliRunner().invoke(app, [*arguments, "--config", str(cwd / "config.yaml")], env=env)


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text("models: []\n", encoding="utf-8")
    return tmp_path


def configured(cwd: Path, text: str) -> None:
    (cwd / "config.yaml").write_text(text, encoding="utf-8")


@pytest.fixture
def pulled(cwd: Path) -> Path:
    """The embedded model is in the home already, so that nothing is fetched."""
    target = bundled(cwd / "home")
    target.parent.mkdir(parents=True)
    target.symlink_to(bundled(embedded_home()).resolve())
    return cwd


def test_list_names_configured_models(cwd: Path) -> None:
    configured(cwd, "models:\n- {name: mine, model: 'openai:gpt-5'}\n")
    result = invoke("list", cwd=cwd)
    assert (result.exit_code, result.stdout) == (0, "mine\topenai:gpt-5\n")


def test_list_says_what_was_found(cwd: Path) -> None:
    result = invoke("list", cwd=cwd, DEEPSEEK_API_KEY="sk-secret")
    assert result.stdout == "deepseek\tdeepseek:deepseek-chat\n"
    assert "deepseek-chat" in result.stderr
    assert "sk-secret" not in result.output


def test_a_broken_configuration_exits_2(cwd: Path) -> None:
    configured(cwd, "models: 7\n")
    for command in ("list", "pull"):
        result = invoke(command, cwd=cwd)
        assert result.exit_code == 2
        assert "config.yaml" in result.stderr


def test_pull_leaves_a_whole_file_alone(pulled: Path) -> None:
    result = invoke("pull", cwd=pulled)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "is in place" in result.stderr


async def test_pull_fetches_configured_files(pulled: Path) -> None:
    async with fake_hub(files={"m.gguf": CONTENT}) as hub:
        configured(
            pulled,
            "models:\n- {name: own, use: local, repo: a/b, file: m.gguf, endpoint: '"
            f"{hub.url}', sha256: '{hashlib.sha256(CONTENT).hexdigest()}'}}\n",
        )
        result = await asyncio.to_thread(invoke, "pull", cwd=pulled)
    assert result.exit_code == 0, result.stderr
    assert "m.gguf is in place" in result.stderr
    (found,) = (pulled / "home").rglob("m.gguf")
    assert found.read_bytes() == CONTENT


async def test_a_file_that_cannot_be_fetched_exits_1(pulled: Path) -> None:
    async with fake_hub(files={"m.gguf": CONTENT}) as hub:
        text = "models:\n- {name: own, use: local, repo: a/b, file: m.gguf"
        text += ", sha256: '%s', endpoint: '%s'}\n"
        configured(pulled, text % ("0" * 64, hub.url))
        result = await asyncio.to_thread(invoke, "pull", cwd=pulled)
    assert result.exit_code == 1
    assert "another checksum" in result.stderr
    assert "Traceback" not in result.output
