"""Worker processes: `deerflow worker`, and those that `deerflow serve` starts and restarts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from typing import Any

from deerflow.cli import output
from deerflow.cli.log import log_to_file
from deerflow.config.load import LoadedConfig
from deerflow.gateway.config import GatewayConfig
from deerflow.gateway.ending import on_signals, wind_down
from deerflow.gateway.reload import on_hang_up
from deerflow.runtime.heap import one_arena

logger = logging.getLogger(__name__)

_RESTART_SECONDS = 1.0
"""Delay before a worker that died is started again; doubled up to a minute while it dies early."""
_SLOWEST = 60.0
_EARLY = 10.0


class Workers:
    """Further worker processes of `deerflow serve`: `runtime.workers` less this process itself."""

    def __init__(self, loaded: LoadedConfig, config: GatewayConfig) -> None:
        shared = loaded.config.database.backend != "memory"
        more = loaded.config.runtime.workers - 1 if config.execute and shared else 0
        self._count = max(0, more)
        self._loaded = loaded
        self._tasks: list[asyncio.Task[None]] = []
        self._processes: set[Process] = set()

    @property
    def pids(self) -> list[int]:
        """Of the living ones."""
        return [process.pid for process in self._processes]

    async def open(self) -> None:
        """Start them."""
        self._tasks = [asyncio.create_task(self._keep()) for _ in range(self._count)]

    def hang_up(self) -> None:
        """Let them read the configuration again."""
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGHUP)

    async def close(self) -> None:
        """End them in order; they get as long as this process itself."""
        for task in self._tasks:
            task.cancel()
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(process.wait() for process in self._processes))

    async def _keep(self) -> None:
        delay = _RESTART_SECONDS
        while True:
            begun = time.monotonic()
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "deerflow", "worker", "--until-stdin-ends"),
                *(("--config", str(self._loaded.path)) if self._loaded.path else ()),
                stdin=PIPE,
                cwd=self._loaded.cwd,
            )
            self._processes.add(process)
            code = await process.wait()
            self._processes.discard(process)
            early = time.monotonic() - begun < _EARLY
            delay = min(delay * 2, _SLOWEST) if early else _RESTART_SECONDS
            logger.warning("worker %d ended with %d, started again", process.pid, code)
            await asyncio.sleep(delay)


def work(
    loaded: LoadedConfig,
    environ: Mapping[str, str],
    *,
    until_stdin_ends: bool,
    metrics_port: int = 0,
) -> int:
    """Execute runs until a signal comes; the exit code.

    Args:
        loaded: the configuration.
        environ: as `read_environ` gives it.
        until_stdin_ends: end, too, when standard input does: the parent process is gone.
        metrics_port: of this machine, where `/metrics` is served; 0 = nowhere.

    Raises:
        UsageError: the port is in use.
        StorageError: the database cannot be opened.
        ConfigError: what only shows when everything is opened.
    """
    one_arena()
    with log_to_file(loaded.home, loaded.config.log_level):
        return asyncio.run(_work(loaded, environ, until_stdin_ends, metrics_port))


async def _work(
    loaded: LoadedConfig, environ: Mapping[str, str], until_stdin_ends: bool, metrics_port: int
) -> int:
    from deerflow.gateway.figures import serving  # noqa: PLC0415  (uvicorn)
    from deerflow.wiring.runtime import open_runtime  # noqa: PLC0415  (LangChain)

    stop = asyncio.Event()
    on_signals(stop.set)
    watching = asyncio.create_task(_until_stdin_ends(stop)) if until_stdin_ends else None
    async with (
        open_runtime(loaded, environ, execute=True) as runtime,
        serving(runtime, metrics_port),
    ):
        on_hang_up(lambda: runtime.harness)
        if not until_stdin_ends:
            output.say(f"Worker {runtime.engine.worker_id} waits for runs.")
            output.flush()
        await stop.wait()
        await wind_down(runtime)
    if watching is not None:
        watching.cancel()
    return 0


async def _until_stdin_ends(stop: asyncio.Event) -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    made: Any = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    try:
        await reader.read()
        stop.set()
    finally:
        made[0].close()
