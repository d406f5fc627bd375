"""The shipped langgraph.json under `langgraph dev`, which refuses blocking calls on its loop."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from langgraph_sdk import get_client

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = [
    {
        "calls": [
            {"name": "write_file", "args": {"path": "/mnt/user-data/outputs/a.md", "content": "x"}}
        ]
    },
    {"calls": [{"name": "present_files", "args": {"paths": ["/mnt/user-data/outputs/a.md"]}}]},
    {"text": "Done."},
]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Address of a `langgraph dev` in an environment of its own."""
    uv = str(ROOT / "scripts" / "uv.sh")
    monkeypatch.setenv("DEER_FLOW_HOME", str(tmp_path / "home"))
    python = str(tmp_path / "env" / "bin" / "python")
    subprocess.run([uv, "venv", "-q", str(tmp_path / "env")], check=True)
    package = ["langgraph-cli[inmem]>=0.4", "-e", str(ROOT)]
    subprocess.run([uv, "pip", "install", "-q", "--python", python, *package], check=True)
    model = {"name": "s", "use": "deerflow.models.scripted:ScriptedChatModel", "script": SCRIPT}
    (tmp_path / "config.yaml").write_text(
        yaml.safe_dump({"models": [model], "sandbox": {"use": "memory"}})
    )
    shipped = json.loads((ROOT / "langgraph.json").read_text())
    shipped.pop("env")
    (tmp_path / "langgraph.json").write_text(json.dumps({**shipped, "dependencies": [str(ROOT)]}))
    port = free_port()
    started = [str(tmp_path / "env" / "bin" / "langgraph"), "dev", "--no-browser", "--no-reload"]
    with subprocess.Popen(
        [*started, "--port", str(port)],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        yield f"http://127.0.0.1:{port}"
        process.terminate()


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_the_shipped_graph_runs_under_a_langgraph_server(server: str) -> None:
    async with get_client(url=server) as client:
        async with asyncio.timeout(120):
            while True:
                try:
                    thread = await client.threads.create()
                    break
                except httpx.TransportError:
                    await asyncio.sleep(0.5)  # it says nothing when it listens
        asked = {"messages": [{"role": "user", "content": "Write a.md"}]}
        state = await client.runs.wait(thread["thread_id"], "lead_agent", input=asked)
        assert state["messages"][-1]["content"] == "Done."
        assert state["artifacts"] == ["/mnt/user-data/outputs/a.md"]
