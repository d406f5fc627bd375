"""Processes of the gateway's bench: the mock model server, `deerflow serve`, workers."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psutil

HERE = Path(__file__).resolve().parent
MIB = 2**20
EVERYTHING = {
    "token_budget": {"enabled": True, "max_tokens": 10**9, "user_day": 10**12},
    "guardrails": {
        "enabled": True,
        "provider": {
            "use": "allowlist",
            "config": {
                "rules": [{"tools": ["bash"], "args": {"command": "rm *"}, "decision": "ask"}]
            },
        },
    },
}
"""What is off by default, switched on. Not `tool_search`: it would hide the bench's tool."""
BASES = {
    "mock": "/v1",
    "slow": "/lat/50/v1",
    "spoken": "/lat/50/gap/5/v1",
    "second": "/lat/1000/v1",
    "silent": "/lat/30000/v1",
}
"""Models by what their server adds: nothing, 50 ms, 50 ms and 5 ms a token, 1 s, 30 s."""


def free_port() -> int:
    """A loopback port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def write_home(home: Path, mock: str, **sections: Any) -> dict[str, str]:
    """A home with a configuration; the environment of its processes.

    They serve the source beside this folder and keep its bytecode, as an installed product does:
    a start that compiles 1,600 modules takes twice as long and 15 MiB more.
    """
    home.mkdir(parents=True, exist_ok=True)
    use = "deerflow.models.openai:OpenAIChatModel"
    models = [
        {"name": name, "use": use, "model": "gpt-4o-mini", "base_url": mock + path, "api_key": "x"}
        for name, path in BASES.items()
    ]
    tools = [{"name": "bench_add", "use": "gateway_tool:bench_add"}]
    config = {"models": models, "tools": tools, **EVERYTHING, **sections}
    (home / "config.yaml").write_text(json.dumps(config))
    inherited = {key: os.environ[key] for key in os.environ if key != "PYTHONDONTWRITEBYTECODE"}
    return {
        **inherited,
        "DEER_FLOW_HOME": str(home),
        "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent / "src")]),
        "PYTHONPYCACHEPREFIX": str(HERE / "results" / "bytecode"),
        "LANGSMITH_TRACING": "false",
        "NO_PROXY": "127.0.0.1,localhost",
    }


def command(home: Path, *arguments: str) -> list[str]:
    """A command line of deerflow."""
    return [sys.executable, "-m", "deerflow", *arguments, "--config", str(home / "config.yaml")]


def token_of(home: Path, env: dict[str, str]) -> str:
    """An API token of a new admin."""
    name = "bench@example.org"
    made = command(home, "users", "create", name, "--admin", "--password-stdin")
    subprocess.run(made, env=env, input=b"correct horse battery\n", check=True, capture_output=True)
    done = subprocess.run(
        command(home, "users", "token", name), env=env, check=True, capture_output=True
    )
    return next(word for word in done.stdout.decode().split() if word.startswith("df_"))


@dataclass
class Served:
    """A serving process and a client of it.

    Attributes:
        url: its address.
        process: the process.
        http: sends the token.
        mock: address of the model server.
        health_ms, ready_ms: from the start of the process to the first 200.
    """

    url: str
    process: psutil.Process
    http: aiohttp.ClientSession
    mock: str
    token: str = field(repr=False)
    health_ms: float = 0.0
    ready_ms: float = 0.0

    @property
    def cpu_ms(self) -> float:
        """User and system time of the process so far."""
        times = self.process.cpu_times()
        return (times.user + times.system) * 1e3

    @property
    def rss(self) -> float:
        """Resident MiB of the process."""
        return self.process.memory_info().rss / MIB

    async def post(self, path: str, body: dict[str, Any]) -> Any:
        """JSON to JSON."""
        async with self.http.post(self.url + path, json=body) as answer:
            assert answer.status < 300, (answer.status, await answer.text())
            return await answer.json(content_type=None) if answer.status == 200 else None

    async def calls(self, ident: str) -> list[dict[str, Any]]:
        """The model calls of a run, as the model server saw them."""
        async with self.http.get(f"{self.mock}/stats?id={ident}") as answer:
            return list((await answer.json())["calls"])

    async def run(self, task: str, model: str = "mock", thread: str = "") -> float:
        """One run in a thread of its own, waited for; wall milliseconds."""
        begun = time.perf_counter()
        answer = await self.post(
            f"/api/threads/{thread or uuid.uuid4()}/runs/wait", body_of(task, model)
        )
        wall = (time.perf_counter() - begun) * 1e3
        assert "lorem" in str(answer["messages"][-1]["content"]), answer
        return wall


def body_of(task: str, model: str, **more: Any) -> dict[str, Any]:
    """The body of a run."""
    return {
        "assistant_id": "lead_agent",
        "if_not_exists": "create",
        "input": {"messages": [{"role": "user", "content": task}]},
        "context": {"model_name": model},
        **more,
    }


@asynccontextmanager
async def mock_server(folder: Path) -> AsyncGenerator[str]:
    """The model server of the peers; its address."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(folder / "server.py"), "--port", str(port),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def serve(home: Path, mock: str, *arguments: str) -> AsyncGenerator[Served]:
    """`deerflow serve` (or what the arguments say) with sign-in and the durable engine on."""
    env = write_home(home, mock)
    token = token_of(home, env)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    begun = time.perf_counter()
    with (home / "serve.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *command(home, *(arguments or ("serve",)), "--port", str(port)),
            env=env, stdout=log, stderr=log,
        )  # fmt: skip
    connector = aiohttp.TCPConnector(limit=0)
    headers = {"Authorization": f"Bearer {token}"}
    timeout = aiohttp.ClientTimeout(total=600)
    try:
        async with aiohttp.ClientSession(
            connector=connector, headers=headers, timeout=timeout
        ) as http:
            served = Served(url, psutil.Process(process.pid), http, mock, token)
            served.health_ms = await _answers(http, f"{url}/health", begun)
            served.ready_ms = await _answers(http, f"{url}/ready", begun)
            yield served
    finally:
        if process.returncode is None:
            process.terminate()
        await asyncio.wait_for(process.wait(), 60)


@asynccontextmanager
async def worker(home: Path, mock: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A `deerflow worker` on a home that is served; killed at the end."""
    env = write_home(home, mock)
    process = await asyncio.create_subprocess_exec(
        *command(home, "worker"), env=env, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _answers(http: aiohttp.ClientSession, url: str, begun: float) -> float:
    while True:
        try:
            async with http.get(url) as answer:
                if answer.status == 200:
                    return (time.perf_counter() - begun) * 1e3
        except aiohttp.ClientError:
            pass
        assert time.perf_counter() - begun < 60, f"{url} does not answer"
        await asyncio.sleep(0.005)
