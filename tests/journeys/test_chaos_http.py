"""Workers and servers die all the time; clients that read over HTTP miss nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from fakes.chaos import examine, until
from fakes.chaos_http import HttpChaos, http_chaos
from fakes.postgres import need_postgres, served_schema
from fakes.servers import PrivateServer, private_server
from fakes.serving import ANSWER, Site, WorkerZygote

LIMITS = {"lease_seconds": 3, "user_runs": 100}
LONG_ANSWER = f"{ANSWER} {'And this is how it went, word after word. ' * 4}"


class Scale(Protocol):
    def __call__(self, short: int, long: int) -> int: ...


BACKENDS = pytest.mark.parametrize(
    ("backend", "workers", "servers"), [("postgres", 3, 2), ("sqlite", 0, 1)]
)


@contextlib.contextmanager
def site_on(backend: str, home: Path) -> Iterator[Site]:
    """A service whose runs end with a text that takes its time."""
    with contextlib.ExitStack() as stack:
        database: dict[str, Any] = {"backend": backend}
        if backend == "postgres":
            need_postgres()
            database = stack.enter_context(served_schema())
        yield on(database, home)


def on(database: dict[str, Any], home: Path) -> Site:
    return Site(str(home), database, LIMITS, answer=LONG_ANSWER, gap_ms=20)


@BACKENDS
async def test_streams_over_http_miss_nothing(
    zygote: WorkerZygote, tmp_path: Path, backend: str, workers: int, servers: int
) -> None:
    with site_on(backend, tmp_path) as site:
        async with http_chaos(site, zygote, workers, servers) as one:
            await one.storm(4, 6, 1)
            wrong = await examine(one, await one.ended(120))
    assert wrong == []
    assert max(client.connections for client in one.clients.values()) > 3


@pytest.mark.soak
@BACKENDS
async def test_streams_over_http_at_full_length(
    zygote: WorkerZygote, tmp_path: Path, backend: str, workers: int, servers: int
) -> None:
    """60 runs at once, a worker or a server killed every 3 s until they have ended; ten times."""
    with site_on(backend, tmp_path) as site:
        async with http_chaos(site, zygote, workers, servers) as one:
            await one.siege(60, 3, 10)
            wrong = await examine(one, await one.ended(120))
    assert wrong == []


async def test_streams_outlive_a_restart_of_the_database(
    zygote: WorkerZygote, tmp_path: Path, scale: Scale
) -> None:
    """Runs at once, a worker or a server killed every 3 s, and once the database goes as well.

    In the long form 60 runs, five times.
    """
    runs, rounds = scale(6, 60), scale(1, 5)
    with private_server() as server:
        site = on({"backend": "postgres", "postgres_url": server.url}, tmp_path)
        async with http_chaos(site, zygote, 3, 2) as one:
            async with asyncio.TaskGroup() as group:
                group.create_task(one.siege(runs, 3, rounds))
                group.create_task(_restart(one, server, runs, rounds))
            wrong = await examine(one, await one.ended(120))
    assert wrong == []
    assert len(one.kills) >= rounds


async def _restart(one: HttpChaos, server: PrivateServer, runs: int, rounds: int) -> None:
    """Once in the middle of each round; somebody dies before it has recovered."""
    for turn in range(rounds):
        middle = int((turn + 0.5) * runs * one.site.rounds)
        await until(lambda reached=middle: len(one.site.read("effects")) > reached)
        await one.restart(server)
        await one.kill()
