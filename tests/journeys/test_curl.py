"""The curl scripts of the documentation, against a real process."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from deerflow.config.load import read_environ
from fakes.gateway import PASSWORD, serve, write_config
from fakes.tree import ROOT

PAGES = ("how-to/sign-in.md", "concepts/gateway.md", "how-to/exchange-files.md")
EMAIL = "you@example.org"
BLOCK = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)


async def _run(
    *command: str, home: Path, input: str = "", **environ: str
) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=home,
        env={**read_environ(), "DEER_FLOW_HOME": str(home), **environ},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate(input.encode())
    return process.returncode, out.decode()


async def test_the_scripts_of_the_pages_run(tmp_path: Path) -> None:
    script = [{"text": "Good day to you.", "when": "Hello", "times": 9}]
    write_config(tmp_path, script)
    deerflow = (sys.executable, "-m", "deerflow")
    made = await _run(
        *deerflow,
        *("users", "create", EMAIL, "--admin", "--password-stdin"),
        home=tmp_path,
        input=f"{PASSWORD}\n",
    )
    assert made[0] == 0, made[1]
    token = (await _run(*deerflow, "users", "token", EMAIL, home=tmp_path))[1].strip()
    said: dict[str, str] = {}
    async with serve(tmp_path, script, auth=True) as served:
        for page in PAGES:
            text = (ROOT / "docs" / page).read_text(encoding="utf-8")
            for block in BLOCK.findall(text):
                code, said[page] = await _run(
                    *("bash", "-euo", "pipefail", "-c", block),
                    home=tmp_path,
                    URL=served.url,
                    EMAIL=EMAIL,
                    PASSWORD=PASSWORD,
                    TOKEN=token,
                )
                assert code == 0, f"{page}: {said[page]}"
    assert '"token":"df_' in said["how-to/sign-in.md"]
    assert '"system_role":"admin"' in said["how-to/sign-in.md"]
    assert "Good day to you." in said["concepts/gateway.md"]
    assert "event: messages" in said["concepts/gateway.md"]
    assert "# Notes" in said["how-to/exchange-files.md"]
