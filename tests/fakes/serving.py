"""Processes of a service that may be killed at any moment, and the zygote that forks them.

The zygote imports everything once, so that a new process costs a fork. What a worker does to the
outside stands in files that all append to.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime

import deerflow
import fakes
from deerflow.config.load import LoadedConfig
from deerflow.gateway.app import create_app
from deerflow.gateway.config import GatewayConfig
from deerflow.gateway.server import listen
from deerflow.models.scripted import ScriptedChatModel
from deerflow.wiring.parts import Given
from deerflow.wiring.runtime import Runtime, open_runtime
from fakes.harness import loaded, scripted_config

ROUNDS = 5
ANSWER = "All rounds are done."


@dataclass(frozen=True)
class Site:
    """Where a service lives.

    Attributes:
        home: DEER_FLOW_HOME; the ledgers `requests`, `effects` and `reads` lie in it.
        database: section of that name.
        runtime: section of that name.
        latency: seconds that each model call takes.
        pause: seconds that each effect takes.
        rounds: of tools in each run.
        answer: what each run says at last.
        gap_ms: between two words of it.
    """

    home: str
    database: dict[str, Any]
    runtime: dict[str, Any] = field(default_factory=dict[str, Any])
    latency: float = 0.05
    pause: float = 0.01
    rounds: int = ROUNDS
    answer: str = ANSWER
    gap_ms: int = 0

    def write(self, ledger: str, **line: Any) -> None:
        """Append one line, whole or not at all (O_APPEND, one write)."""
        text = json.dumps({"pid": os.getpid(), "at": time.time(), **line}) + "\n"
        path = Path(self.home, f"{ledger}.jsonl")
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, text.encode())
        finally:
            os.close(file)

    def read(self, ledger: str) -> list[dict[str, Any]]:
        """Lines of a ledger, oldest first."""
        file = Path(self.home, f"{ledger}.jsonl")
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def script(self) -> list[dict[str, Any]]:
        """Rounds of an effect and a read, then an answer; for several runs of a thread."""
        rounds: list[dict[str, Any]] = [
            {
                "calls": [
                    {"name": name, "args": {"place": f"{number}"}} for name in ("effect", "peek")
                ]
            }
            for number in range(self.rounds)
        ]
        return [*rounds, {"text": self.answer, "gap_ms": self.gap_ms}] * 3


class CountedModel(ScriptedChatModel):
    """A scripted model that takes its time, and notes each request in the ledger `requests`."""

    site: Any = None

    def _take(self, messages: Any, kwargs: Any) -> Any:
        said = [(m.type, str(m.content), [c["args"] for c in getattr(m, "tool_calls", ())])
                for m in messages]  # fmt: skip
        digest = hashlib.sha256(json.dumps(said).encode()).hexdigest()
        human = [m.text for m in messages if m.type == "human"]
        answered = sum(m.type == "ai" for m in messages)
        self.site.write("requests", task=human[-1], answered=answered, sha256=digest)
        return super()._take(messages, kwargs)

    async def _pieces(self, turn: Any) -> Any:
        await asyncio.sleep(self.site.latency)
        async for piece in super()._pieces(turn):
            yield piece


def make_tools(site: Site) -> Sequence[BaseTool]:
    """An effect that must not happen twice, and a read."""

    async def effect(place: str, runtime: ToolRuntime) -> str:
        """Leave a mark outside."""
        context = runtime.context
        await asyncio.sleep(site.pause / 2)
        site.write("effects", thread=context.thread_id, run=context.run_id, place=place)
        await asyncio.sleep(site.pause / 2)
        return f"did {place}"

    async def peek(place: str, runtime: ToolRuntime) -> str:
        """Read."""
        context = runtime.context
        site.write("reads", thread=context.thread_id, run=context.run_id, place=place)
        return f"saw {place}"

    marks = {"deerflow": {"idempotent": True}}
    return [
        StructuredTool.from_function(coroutine=effect),
        StructuredTool.from_function(coroutine=peek, metadata=marks),
    ]


def config_of(site: Site) -> LoadedConfig:
    """Its configuration."""
    model = {
        "name": "scripted",
        "use": f"{__name__}:{CountedModel.__name__}",
        "script": site.script,
        "follow": "transcript",
        "site": site,
    }
    sections = {"database": site.database, "runtime": site.runtime, "models": [model]}
    return loaded(scripted_config([], **sections), Path(site.home))


@asynccontextmanager
async def open_site(site: Site, *, execute: bool) -> AsyncGenerator[Runtime]:
    """The service of one process."""
    given = Given(tools=make_tools(site))
    async with open_runtime(config_of(site), {}, execute=execute, given=given) as runtime:
        yield runtime


async def _work(site: Site) -> None:
    """A worker's life: until SIGTERM, which drains it, or SIGKILL."""
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    async with open_site(site, execute=True) as runtime:
        site.write("ready", worker=runtime.engine.worker_id)
        await ending.wait()
        await runtime.engine.drain(10)


async def _serve(site: Site, port: int, *, execute: bool) -> None:
    """The life of a process that serves the API on a port of loopback, with a worker or without."""
    process = GatewayConfig(port=port, execute=execute, auth_disabled=True)

    @asynccontextmanager
    async def opener() -> AsyncGenerator[Runtime]:
        async with open_site(site, execute=execute) as runtime:
            site.write("ready", worker=runtime.engine.worker_id)
            yield runtime

    app = create_app(process, config_of(site), {}, opener=opener)
    settings = uvicorn.Config(app, log_config=None, access_log=False, ws="websockets-sansio")
    with listen(process) as listener:
        await uvicorn.Server(settings).serve([listener])


class WorkerProcess:
    """A forked process that executes runs, serves the API, or both."""

    def __init__(self, zygote: WorkerZygote, command: dict[str, Any]) -> None:
        self._zygote = zygote
        self._command = command
        self.pid = zygote.ask(command)

    def again(self) -> WorkerProcess:
        """Another of the kind."""
        return WorkerProcess(self._zygote, self._command)

    def signal(self, number: signal.Signals) -> int:
        """Send it and wait for the end; its exit code, negative for a signal."""
        os.kill(self.pid, number)
        return self._zygote.ask({"wait": self.pid})

    def kill(self) -> int:
        """SIGKILL, nothing less."""
        return self.signal(signal.SIGKILL)


class WorkerZygote:
    """Handle of the process that forks the others."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, command: dict[str, Any]) -> int:
        """One command, one number back."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def start(self, site: Site) -> WorkerProcess:
        """Fork a worker."""
        return WorkerProcess(self, {"site": asdict(site)})

    def start_api(self, site: Site, port: int, *, execute: bool) -> WorkerProcess:
        """Fork a process that serves the API, and executes runs if that is wanted."""
        command = {"site": asdict(site), "port": port, "execute": execute}
        return WorkerProcess(self, command)


@contextmanager
def worker_zygote() -> Iterator[WorkerZygote]:
    """A running zygote; it ends with its input."""
    folders = [str(Path(package.__path__[0]).parent) for package in (fakes, deerflow)]
    code = f"import sys; sys.path[:0] = {folders}; from {__name__} import serve; serve()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield WorkerZygote(process)
        assert process.stdin is not None
        process.stdin.close()


def serve() -> None:
    """The zygote: no thread, no connection, no loop; it forks and reaps."""
    for module in ("dbos", "deerflow.storage.postgres.storage", "aiohttp"):
        importlib.import_module(module)  # what is loaded late elsewhere; no child waits for it

    for line in sys.stdin:
        command = json.loads(line)
        if "wait" in command:
            _, status = os.waitpid(command["wait"], 0)
            answer = os.waitstatus_to_exitcode(status)
        else:
            answer = os.fork()
            if answer == 0:
                _become(command)
        print(answer, flush=True)


def _become(command: dict[str, Any]) -> None:
    """The process's whole life; it never returns into the zygote's loop."""
    code, site = 1, Site(**command["site"])
    try:
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(2, 1)
        logging.basicConfig(
            level=logging.WARNING, filename=Path(site.home, f"worker-{os.getpid()}.log")
        )
        if "port" in command:
            asyncio.run(_serve(site, command["port"], execute=command["execute"]))
        else:
            asyncio.run(_work(site))
        code = 0
    finally:
        if code:
            sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        os._exit(code)
