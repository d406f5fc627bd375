"""Programs against an endpoint: LangGraph with the packages here, all four in the long form."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from deerflow.errors import SandboxError
from deerflow.exam.contract import ResultFile
from deerflow.exam.dataset import load_dataset
from deerflow.exam.frameworks.environments import environment
from deerflow.exam.frameworks.processes import run
from deerflow.exam.frameworks.registry import FRAMEWORKS
from deerflow.exam.frameworks.running import PAPER, Endpoint, Seat, sit_elsewhere
from fakes.exam_endpoint import ExamEndpoint
from fakes.exams import SIX, dataset_file, six
from fakes.seats import pretend

SEEN = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


async def sat(
    folder: Path, endpoint: ExamEndpoint, name: str = "langgraph", home: Path | None = None
) -> ResultFile:
    there = environment(FRAMEWORKS[name], home) if home else pretend(folder, name)
    seat = Seat(there.python, there.home, {**SEEN, "SECRET": "s3cret"}, folder / "out")
    said: list[str] = []
    file = await sit_elsewhere(
        there.framework,
        seat,
        six(),
        Endpoint(endpoint.base_url, "mock", "k3y"),
        workers=2,
        told=said.append,
    )
    assert len(said) == len(SIX) and said[-1].startswith("[6/6] ")
    return file


def states(file: ResultFile) -> Counter[str]:
    return Counter(answer.raw["state"] for answer in file.results)


async def test_langgraph_sits_an_exam(tmp_path: Path) -> None:
    async with ExamEndpoint() as endpoint:
        file = await sat(tmp_path, endpoint)
    assert file.framework == "langgraph" and file.model == "mock"
    assert [answer.question_id for answer in file.results] == list(six().ids)
    assert states(file) == {"accepted": 6}
    assert endpoint.counts["resolver"] == endpoint.counts["validator"] == 6
    assert sum(answer.raw["calls"] for answer in file.results) == endpoint.calls == 12
    assert all(answer.raw["tokens"]["validator"]["input"] > 0 for answer in file.results)
    assert file.config["workers"] == 2 and file.config["wall_ms"] >= 0
    assert (tmp_path / "out" / "summary.md").read_text("utf-8").endswith("| accepted | 6 |\n")


async def test_a_rejected_answer_goes_round(tmp_path: Path) -> None:
    """Fifty questions whose text differs: those that begin wrong are right at the second try."""
    async with ExamEndpoint(revise=True) as endpoint:
        there = pretend(tmp_path, "langgraph")
        seat = Seat(there.python, there.home, SEEN, tmp_path / "out")
        asked = [{**SIX[3], "id": f"math-{n:03}", "question": f"Say {n}."} for n in range(50)]
        file = await sit_elsewhere(
            there.framework,
            seat,
            load_dataset(dataset_file(tmp_path, asked)),
            Endpoint(endpoint.base_url, "mock"),
            workers=4,
            told=lambda line: None,
        )
    assert states(file) == {"accepted": 50}
    attempts = Counter(answer.raw["attempts"] for answer in file.results)
    assert set(attempts) == {1, 2} and endpoint.calls == 2 * (attempts[1] + 2 * attempts[2])


async def test_what_is_no_verdict_accepts_nothing(tmp_path: Path) -> None:
    async with ExamEndpoint(say="ok") as endpoint:
        file = await sat(tmp_path, endpoint)
    assert states(file) == {"validator_error": 6}
    assert {answer.response for answer in file.results} == {"ok"}


async def test_no_key_of_the_exam_and_no_secret_of_ours_goes_out(tmp_path: Path) -> None:
    async with ExamEndpoint() as endpoint:
        await sat(tmp_path, endpoint)
    told = json.loads((tmp_path / "out" / PAPER).read_text("utf-8"))
    assert "answer" not in told["questions"][0]
    written = b"".join(path.read_bytes() for path in (tmp_path / "out").iterdir())
    assert b"s3cret" not in written and b"k3y" not in written


async def test_a_program_that_fails_says_why(tmp_path: Path) -> None:
    there = pretend(tmp_path, "crewai")
    there.python.write_text("#!/bin/sh\necho no such module >&2\nexit 3\n")
    seat = Seat(there.python, there.home, SEEN, tmp_path / "out")
    with pytest.raises(SandboxError, match="CrewAI ended with 3: no such module"):
        await sit_elsewhere(
            there.framework,
            seat,
            six(),
            Endpoint("http://127.0.0.1:9/v1", "mock"),
            workers=1,
            told=lambda line: None,
        )


async def test_a_child_sees_only_what_it_is_given(tmp_path: Path) -> None:
    said: list[str] = []
    assert await run(["/usr/bin/env"], {"ONE": "1"}, tmp_path / "log", said.append) == 0
    assert said == ["ONE=1"]


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", FRAMEWORKS)
async def test_every_framework_in_its_own_environment(tmp_path: Path, name: str) -> None:
    """Installed from the package index once, outside the repository."""
    home = Path(tempfile.gettempdir()) / "deerflow-frameworks"
    there = environment(FRAMEWORKS[name], home)
    if not there.installed():
        await there.install({**SEEN, "HOME": str(home)})
    async with ExamEndpoint() as endpoint:
        file = await sat(tmp_path / "yes", endpoint, name, home)
        assert states(file) == {"accepted": 6}
        assert sum(answer.raw["calls"] for answer in file.results) == endpoint.calls == 12
        assert file.config["versions"]
    async with ExamEndpoint(say="ok") as endpoint:
        file = await sat(tmp_path / "ok", endpoint, name, home)
        assert set(states(file)) <= {"validator_error", "resolver_error"}
