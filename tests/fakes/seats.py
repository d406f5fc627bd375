"""Environments of frameworks without their installation: this interpreter stands in for each."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from deerflow.exam.frameworks.environments import MARK, Environment, environment
from deerflow.exam.frameworks.registry import FRAMEWORKS


def pretend(home: Path, name: str) -> Environment:
    """Make an environment below DEER_FLOW_HOME look installed, with the packages of the tests."""
    there = environment(FRAMEWORKS[name], home)
    there.python.parent.mkdir(parents=True)
    there.home.mkdir()
    there.python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    there.python.chmod(0o755)
    (there.folder / MARK).write_text(there.wanted(), "utf-8")
    return there
