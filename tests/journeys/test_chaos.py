"""Workers are killed all the time, and every run comes to its end as if nothing had been."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from fakes.chaos import chaos, examine, until
from fakes.postgres import need_postgres, served_schema
from fakes.servers import private_server
from fakes.serving import Site, WorkerZygote

LEASE = {"lease_seconds": 3}


class Scale(Protocol):
    def __call__(self, short: int, long: int) -> int: ...


BACKENDS = pytest.mark.parametrize(("backend", "workers"), [("postgres", 3), ("sqlite", 1)])


@contextlib.contextmanager
def site_on(backend: str, home: Path) -> Iterator[Site]:
    """A service with 5 rounds of tools in each run, 50 ms for each answer of the model."""
    with contextlib.ExitStack() as stack:
        database: dict[str, Any] = {"backend": backend}
        if backend == "postgres":
            need_postgres()
            database = stack.enter_context(served_schema())
        yield Site(str(home), database, LEASE)


@BACKENDS
async def test_chaos(zygote: WorkerZygote, tmp_path: Path, backend: str, workers: int) -> None:
    """Runs come in all the time, and a worker dies at any moment."""
    with site_on(backend, tmp_path) as site:
        async with chaos(site, zygote, workers) as one:
            await one.storm(6, 10 if workers > 1 else 4, 1)
            wrong = await examine(one, await one.ended(120))
    assert wrong == []


@pytest.mark.soak
@BACKENDS
async def test_chaos_at_full_length(
    zygote: WorkerZygote, tmp_path: Path, backend: str, workers: int
) -> None:
    """60 runs at once, a worker killed every 3 s until they have ended; twenty times."""
    with site_on(backend, tmp_path) as site:
        async with chaos(site, zygote, workers) as one:
            await one.siege(60, 3, 20)
            wrong = await examine(one, await one.ended(120))
    assert len(one.kills) >= 15  # a quick machine has done all runs before the twentieth
    assert wrong == []


async def test_the_database_is_restarted(
    zygote: WorkerZygote, tmp_path: Path, scale: Scale
) -> None:
    """In the middle of everything, once (in the long form five times); workers die as well."""
    with private_server() as server:
        database = {"backend": "postgres", "postgres_url": server.url}
        site = Site(str(tmp_path), database, LEASE)
        async with chaos(site, zygote, 3) as one:
            for restart in range(scale(1, 5)):
                base = 20 * restart
                for number in range(base, base + 20):
                    await one.submit(number)
                await until(lambda reached=base: len(site.read("effects")) > 5 * reached + 20)
                await one.restart(server)
                await one.kill()
                await one.ended(scale(90, 300))
            wrong = await examine(one, await one.ended(scale(90, 300)))
    assert wrong == []
