from __future__ import annotations

import asyncio
import contextlib
import signal
from pathlib import Path

import psutil

from deerflow.gateway.config import GatewayConfig
from deerflow.gateway.workers import Workers
from fakes.gateway import serve, until
from fakes.harness import loaded, scripted_config


def _workers(parent: int) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for child in psutil.Process(parent).children():
        with contextlib.suppress(psutil.NoSuchProcess):  # it may end while it is looked at
            if "worker" in child.cmdline() and child.status() != psutil.STATUS_ZOMBIE:
                found.append(child)
    return found


async def _one_worker(parent: int, *, other_than: int = 0) -> psutil.Process:
    async with asyncio.timeout(60):
        while True:
            for child in _workers(parent):
                if child.pid != other_than:
                    return child
            await asyncio.sleep(0.05)


async def _gone(process: psutil.Process) -> None:
    def ended() -> bool:
        try:
            return process.status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    await until(ended)


async def test_serve_keeps_its_workers_and_takes_them_along(tmp_path: Path) -> None:
    two = {"workers": 2}
    async with serve(tmp_path, ["hello"], runtime=two) as served:
        first = await _one_worker(served.process.pid)
        first.kill()
        second = await _one_worker(served.process.pid, other_than=first.pid)
        assert await served.stop() == 0
        await _gone(second)
    async with serve(tmp_path, ["hello"], runtime=two) as served:
        orphan = await _one_worker(served.process.pid)
        await served.stop(signal.SIGKILL)
        await _gone(orphan)


async def test_a_database_in_memory_has_no_further_workers(tmp_path: Path) -> None:
    config = loaded(scripted_config([], runtime={"workers": 3}), tmp_path)
    workers = Workers(config, GatewayConfig())
    await workers.open()
    assert workers.pids == []
    await workers.close()
