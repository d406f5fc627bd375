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
from langgraph_sdk.client import LangGraphClient

from deerflow.runtime.request import RunRequest
from deerflow.wiring.runtime import open_runtime
from fakes.harness import loaded, scripted_config

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


async def listening(client: LangGraphClient) -> None:
    """Return when the server answers; it says nothing when it listens."""
    async with asyncio.timeout(120):
        while True:
            try:
                await client.threads.create()
                return
            except httpx.TransportError:
                await asyncio.sleep(0.5)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs of an environment with the server and this project."""
    folder = tmp_path_factory.mktemp("server") / "env"
    uv, python = str(ROOT / "scripts" / "uv.sh"), str(folder / "bin" / "python")
    subprocess.run([uv, "venv", "-q", str(folder)], check=True)
    package = ["langgraph-cli[inmem]>=0.4", "-e", str(ROOT)]
    subprocess.run([uv, "pip", "install", "-q", "--python", python, *package], check=True)
    return folder / "bin"


@pytest.fixture
def server(environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Address of a `langgraph dev` with the scripted model; its home is this test's."""
    monkeypatch.setenv("DEER_FLOW_HOME", str(tmp_path / "home"))
    model = {
        "name": "scripted",
        "use": "deerflow.models.scripted:ScriptedChatModel",
        "script": SCRIPT,
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"models": [model]}))
    shipped = json.loads((ROOT / "langgraph.json").read_text())
    shipped.pop("env")
    (tmp_path / "langgraph.json").write_text(json.dumps({**shipped, "dependencies": [str(ROOT)]}))
    port = free_port()
    started = [str(environment / "langgraph"), "dev", "--no-browser", "--no-reload"]
    with subprocess.Popen(
        [*started, "--port", str(port)],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        yield f"http://127.0.0.1:{port}"
        process.terminate()


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_standard_mode_runs_there_and_is_logged_here(server: str, tmp_path: Path) -> None:
    section = {"mode": "standard", "langgraph_url": server}
    config = scripted_config([{"text": "never asked"}], runtime=section)
    async with get_client(url=server) as client:
        await listening(client)
    async with open_runtime(loaded(config, tmp_path / "home"), {}, durable=False) as runtime:
        done = await runtime.submissions.submit(RunRequest(task="Write a.md", thread_id="t1"))
        row = await runtime.submissions.wait(done.run.thread_key, done.run.run_id)
        assert row.error is None
        log = await runtime.harness.storage.events.read(done.run.thread_key)
        kinds = [event.payload["message"]["type"] for event in log if event.type == "message"]
        assert kinds == ["human", "ai", "tool", "ai", "tool", "ai"]
        assert log[-1].payload["artifacts"] == ["/mnt/user-data/outputs/a.md"]
        thread = await runtime.harness.storage.threads.by_key(done.run.thread_key)
        assert thread is not None
        state = await runtime.histories.state(thread)
        assert state is not None
        assert state.values["messages"][-1].content == "Done."


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_the_shipped_graph_runs_under_a_langgraph_server(server: str) -> None:
    async with get_client(url=server) as client:
        await listening(client)
        thread = await client.threads.create()
        asked = {"messages": [{"role": "user", "content": "Write a.md"}]}
        state = await client.runs.wait(thread["thread_id"], "lead_agent", input=asked)
        assert state["messages"][-1]["content"] == "Done."
        assert state["artifacts"] == ["/mnt/user-data/outputs/a.md"]
