"""Workers are killed all the time, and every run comes to its end as if nothing had been."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from fakes.chaos import Chaos, chaos, examine
from fakes.postgres import need_postgres, served_schema
from fakes.serving import Site, WorkerZygote, worker_zygote

LEASE = {"lease_seconds": 3}


class Scale(Protocol):
    def __call__(self, short: int, long: int) -> int: ...


@pytest.fixture(scope="module")
def zygote() -> Iterator[WorkerZygote]:
    with worker_zygote() as running:
        yield running


async def storm(one: Chaos, runs: int, seconds: float, patience: float) -> list[str]:
    """Hand the runs in while workers die, and say what is wrong in the end."""
    killer = asyncio.create_task(one.kill_every(seconds))
    try:
        for number in range(runs):
            await one.submit(number)
        rows = await one.ended(patience)
    finally:
        killer.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await killer
    assert one.kills, "nobody was killed: the test has shown nothing"
    return await examine(one, rows)


@pytest.mark.parametrize(("backend", "workers"), [("postgres", 3), ("sqlite", 1)])
async def test_chaos(
    zygote: WorkerZygote, tmp_path: Path, scale: Scale, backend: str, workers: int
) -> None:
    with contextlib.ExitStack() as stack:
        database: dict[str, Any] = {"backend": backend}
        if backend == "postgres":
            need_postgres()
            database = stack.enter_context(served_schema())
        site = Site(str(tmp_path), database, LEASE)
        async with chaos(site, zygote, workers) as one:
            wrong = await storm(one, scale(60 if workers > 1 else 20, 300), scale(2, 3), scale(120, 900))
    assert wrong == []
