"""Several real processes on one database, and what clients do with them over HTTP."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from deerflow.config.load import read_environ
from fakes.gateway import serve, until, write_config
from fakes.streams import Sent, frames_of

SLOW = "One word comes after another, and nobody is in a hurry here at all. " * 10
STEPS = 10
DONE = "All steps are done."


def stories(quick: str) -> dict[str, list[dict[str, Any]]]:
    """What the model says: `quick` at once, with `script:slow` word by word, with `script:steps`
    after many calls."""
    folder = "/mnt/user-data/workspace"
    calls = [
        {"name": "write_file", "args": {"path": f"{folder}/{step}.txt", "content": f"{step}"}}
        for step in range(STEPS)
    ]
    return {
        "default": [{"text": quick}] * 4,
        "slow": [{"text": SLOW, "gap_ms": 50}],
        "steps": [*({"calls": [call], "delay_ms": 500} for call in calls), {"text": DONE}],
    }


@dataclass
class Site:
    """Processes of one service.

    Attributes:
        home: DEER_FLOW_HOME; the configuration lies in it.
        sections: of the configuration, without the model.
        clients: one for each process that serves; two of the same where only one does.
        executors: processes that execute runs.
    """

    home: Path
    sections: dict[str, Any]
    clients: list[httpx.AsyncClient] = field(default_factory=list[httpx.AsyncClient])
    executors: list[Process] = field(default_factory=list[Process])

    def sections_with(self, quick: str) -> dict[str, Any]:
        """The configuration with a model that says so at once."""
        use = "deerflow.models.scripted:ScriptedChatModel"
        model = {"name": "scripted", "use": use, "script": stories(quick), "follow": "transcript"}
        return {**self.sections, "models": [model]}

    def configure(self, quick: str) -> None:
        """Write another configuration."""
        write_config(self.home, [], **self.sections_with(quick))

    def hang_up(self) -> None:
        """Let all executors read it again."""
        for process in self.executors:
            process.send_signal(signal.SIGHUP)


async def begin(client: httpx.AsyncClient, task: str) -> str:
    """Hand in a run on a new thread; its path."""
    body = {"input": {"messages": [{"role": "user", "content": task}]}}
    run = (await client.post("/runs", json=body)).raise_for_status().json()
    return f"/threads/{run['thread_id']}/runs/{run['run_id']}"


async def answer(client: httpx.AsyncClient, task: str) -> str:
    """What is said at last."""
    body = {"input": {"messages": [{"role": "user", "content": task}]}}
    values = (await client.post("/runs/wait", json=body)).raise_for_status().json()
    return str(values["messages"][-1]["content"])


async def status(client: httpx.AsyncClient, path: str) -> str:
    """Of a run."""
    return str((await client.get(path)).raise_for_status().json()["status"])


async def reached(client: httpx.AsyncClient, path: str, wanted: str) -> None:
    """Return when the run is so far."""

    async def is_there() -> bool:
        return await status(client, path) == wanted

    await until(is_there)


async def stream(client: httpx.AsyncClient, path: str) -> list[Sent]:
    """All frames of a run."""
    headers = {"Last-Event-ID": "-1"}
    async with client.stream("GET", f"{path}/stream", headers=headers) as reading:
        return frames_of(await reading.aread())


async def events(client: httpx.AsyncClient, path: str) -> list[dict[str, Any]]:
    """The run's log."""
    return (await client.get(f"{path}/events")).raise_for_status().json()


@asynccontextmanager
async def two_servers(home: Path, **sections: Any) -> AsyncGenerator[Site]:
    """Two times `deerflow serve` on one home."""
    site = Site(home, sections)
    async with AsyncExitStack() as stack:
        for _ in range(2):
            await _serve(stack, site, "serve")
        yield site


@asynccontextmanager
async def server_and_workers(home: Path, **sections: Any) -> AsyncGenerator[Site]:
    """`deerflow gateway --no-worker` and two times `deerflow worker`."""
    site = Site(home, sections)
    async with AsyncExitStack() as stack:
        await _serve(stack, site, "gateway", "--no-worker")
        site.clients *= 2
        site.executors.clear()
        for number in range(2):
            file = home / f"worker-{number}.log"
            site.executors.append(await stack.enter_async_context(_worker(home, file)))
        yield site


async def _serve(stack: AsyncExitStack, site: Site, command: str, *arguments: str) -> None:
    opened = serve(site.home, [], *arguments, command=command, **site.sections_with("Quick."))
    served = await stack.enter_async_context(opened)
    client = httpx.AsyncClient(base_url=f"{served.url}/api", timeout=60)
    site.clients.append(await stack.enter_async_context(client))
    site.executors.append(served.process)


@asynccontextmanager
async def _worker(home: Path, file: Path) -> AsyncGenerator[Process]:
    with file.open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "deerflow", "worker", "--config", str(home / "config.yaml")),
            env={**read_environ(), "DEER_FLOW_HOME": str(home)},
            stdout=log,
            stderr=log,
        )
    try:
        await until(lambda: "waits for runs" in file.read_text(encoding="utf-8"))
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
