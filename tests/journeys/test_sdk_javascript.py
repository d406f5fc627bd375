"""The JavaScript SDK against a real `deerflow serve` process; needs node and its packages."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from deerflow.config.load import read_environ
from fakes.gateway import serve
from fakes.sdk import SCRIPT

FOLDER = Path(__file__).parent / "js"
pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not (FOLDER / "node_modules").is_dir(),
    reason="node or its packages are missing; run: npm ci --prefix tests/journeys/js",
)


@pytest.mark.parametrize("journey", ["journeys.mjs", "usestream.mjs"])
async def test_journey(tmp_path: Path, journey: str) -> None:
    async with serve(tmp_path, SCRIPT, scheduler={"enabled": True}) as served:
        process = await asyncio.create_subprocess_exec(
            "node",
            journey,
            cwd=FOLDER,
            env={**read_environ(), "URL": f"{served.url}/api/langgraph"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(90):
            out, error = await process.communicate()
    assert process.returncode == 0, error.decode()
    assert json.loads(out.splitlines()[-1]) == {"ok": True}
