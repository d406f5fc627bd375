"""An exam with the embedded model, from questions to a report that is open in a browser."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from deerflow.config.load import read_environ
from deerflow.models.discover import EMBEDDED
from deerflow.models.gguf import bundled
from fakes.browser import opened
from fakes.gateway import write_config
from fakes.llama import embedded_home

WHOLE = {"accepted", "exhausted"}
"""States without a role that failed."""
TEN_MINUTES = 600
"""Ten questions may take so long on two cores."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with the real model's file and no other model."""
    file = bundled(embedded_home())
    home = tmp_path / "home"
    bundled(home).parent.mkdir(parents=True)
    bundled(home).symlink_to(file)
    use = "deerflow.models.local:LocalChatModel"
    write_config(home, [], models=[{"name": EMBEDDED, "use": use, "compact": True}])
    return home


async def exam(home: Path, *arguments: str) -> str:
    """What a command of `deerflow exam` printed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "deerflow", "exam", *arguments),
        env={**read_environ(), "DEER_FLOW_HOME": str(home)},
        cwd=home,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, error = await process.communicate()
    assert process.returncode == 0, error.decode()
    return out.decode()


@pytest.mark.parametrize(
    "questions",
    [1, pytest.param(10, marks=pytest.mark.soak)],
)
@pytest.mark.timeout(TEN_MINUTES + 60)
async def test_an_exam_ends_and_is_shown(home: Path, tmp_path: Path, questions: int) -> None:
    config = ("--config", str(home / "config.yaml"))
    async with asyncio.timeout(TEN_MINUTES):
        told = await exam(home, "run", *config, "--limit", str(questions), "--out", "exam")
    assert f"of {questions} answers accepted." in told
    file = home / "exam" / "results.json"
    answers = json.loads(await asyncio.to_thread(file.read_text, "utf-8"))["results"]
    assert len(answers) == questions
    for answer in answers:
        assert answer["raw"]["state"] in WHOLE, answer
        assert answer["response"] in tuple("ABCD"), answer
        assert not any("unreadable" in step for step in answer["raw"]["history"]), answer

    folder = tmp_path / "report"
    assert "overall=" in await exam(
        home, "grade", "--result", str(file), "--report-dir", str(folder)
    )
    async with opened(folder / "deerflow.html") as shown:
        drawings = await shown.drawings()
        assert drawings and all(min(each.size) > 40 and each.caption for each in drawings)
        assert shown.complaints == [] and len(shown.requests) == 1
