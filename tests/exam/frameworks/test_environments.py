"""Environments: what counts as installed, and that every package is pinned."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from deerflow.errors import SandboxError, UsageError
from deerflow.exam.frameworks.environments import MARK, environment
from deerflow.exam.frameworks.registry import FRAMEWORKS, Framework, chosen
from fakes.seats import pretend


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_every_package_has_one_version(name: str) -> None:
    lines = FRAMEWORKS[name].requirements.read_text("utf-8").splitlines()
    listed = [line for line in lines if not line.startswith("#")]
    assert listed and all(re.match(r"[\w.\[\]-]+==[\w.+!]+( ; .+)?$", line) for line in listed)


def test_what_is_not_installed_is_refused_with_a_cure(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="frameworks install crewai"):
        environment(FRAMEWORKS["crewai"], tmp_path).check()


def test_other_requirements_are_not_installed(tmp_path: Path) -> None:
    there = pretend(tmp_path, "langgraph")
    there.check()
    (there.folder / MARK).write_text("of another time", "utf-8")
    assert not there.installed()


async def test_a_package_that_cannot_be_had(tmp_path: Path) -> None:
    class Lost(Framework):
        @property
        def requirements(self) -> Path:
            return tmp_path / "none.txt"

    (tmp_path / "none.txt").write_text("./no-such-folder-here\n", "utf-8")
    there = environment(Lost("lost", "Lost", "no way"), tmp_path)
    with pytest.raises(SandboxError, match="could not be installed") as refused:
        await there.install({"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    assert "no-such-folder-here" in refused.value.message
    assert not there.installed()


def test_names() -> None:
    assert [each.name for each in chosen("all")] == list(FRAMEWORKS)
    assert chosen("google-adk") == (FRAMEWORKS["google-adk"],)
    with pytest.raises(UsageError, match="langgraph, openai-agents, google-adk, crewai, all"):
        chosen("deerflow")
