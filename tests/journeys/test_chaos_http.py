"""Workers and servers die all the time; clients that read over HTTP miss nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.chaos import examine
from fakes.chaos_http import http_chaos
from fakes.postgres import need_postgres, served_schema
from fakes.serving import ANSWER, Site, WorkerZygote

LONG_ANSWER = f"{ANSWER} {'And this is how it went, word after word. ' * 4}"

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
        limits = {"lease_seconds": 3, "user_runs": 100}
        yield Site(str(home), database, limits, answer=LONG_ANSWER, gap_ms=20)


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
