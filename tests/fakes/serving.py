"""Worker processes that may be killed at any moment, and the zygote that forks them.

The zygote imports everything once, so that a new worker costs a fork. What a worker does to the
outside stands in files that all append to.
"""

from __future__ import annotations

import asyncio
import hashlib
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

from langchain_core.tools import BaseTool, StructuredTool
from langgraph.prebuilt import ToolRuntime

import deerflow
import fakes
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
    """

    home: str
    database: dict[str, Any]
    runtime: dict[str, Any] = field(default_factory=dict[str, Any])
    latency: float = 0.05
    pause: float = 0.01
    rounds: int = ROUNDS

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
        return [*rounds, {"text": ANSWER}] * 3


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


@asynccontextmanager
async def open_site(site: Site, *, execute: bool) -> AsyncGenerator[Runtime]:
    """The service of one process."""
    model = {
        "name": "scripted",
        "use": f"{__name__}:{CountedModel.__name__}",
        "script": site.script,
        "follow": "transcript",
        "site": site,
    }
    sections = {"database": site.database, "runtime": site.runtime, "models": [model]}
    config = scripted_config([], **sections)
    given = Given(tools=make_tools(site))
    async with open_runtime(
        loaded(config, Path(site.home)), {}, execute=execute, given=given
    ) as runtime:
        yield runtime


async def _work(site: Site) -> None:
    """A worker's life: until SIGTERM, which drains it, or SIGKILL."""
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    async with open_site(site, execute=True) as runtime:
        site.write("ready", worker=runtime.engine.worker_id)
        await ending.wait()
        await runtime.engine.drain(10)


class WorkerProcess:
    """A forked worker."""

    def __init__(self, zygote: WorkerZygote, pid: int) -> None:
        self._zygote = zygote
        self.pid = pid

    def signal(self, number: signal.Signals) -> int:
        """Send it and wait for the end; its exit code, negative for a signal."""
        os.kill(self.pid, number)
        return self._zygote.ask({"wait": self.pid})

    def kill(self) -> int:
        """SIGKILL, nothing less."""
        return self.signal(signal.SIGKILL)


class WorkerZygote:
    """Handle of the process that forks workers."""

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
        return WorkerProcess(self, self.ask({"site": asdict(site)}))


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
    import dbos  # noqa: F401, PLC0415  # 1.5 s that no worker has to wait for

    for line in sys.stdin:
        command = json.loads(line)
        if "wait" in command:
            _, status = os.waitpid(command["wait"], 0)
            answer = os.waitstatus_to_exitcode(status)
        else:
            answer = os.fork()
            if answer == 0:
                _become(Site(**command["site"]))
        print(answer, flush=True)


def _become(site: Site) -> None:
    """The worker's whole life; it never returns into the zygote's loop."""
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(2, 1)
        logging.basicConfig(
            level=logging.WARNING, filename=Path(site.home, f"worker-{os.getpid()}.log")
        )
        asyncio.run(_work(site))
        code = 0
    finally:
        if code:
            sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        os._exit(code)
