"""Workers are killed all the time, and every run comes to its end as if nothing had been."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from fakes.chaos import chaos, examine
from fakes.postgres import need_postgres, served_schema
from fakes.serving import Site, WorkerZygote, worker_zygote

LEASE = {"lease_seconds": 3}


class Scale(Protocol):
    def __call__(self, short: int, long: int) -> int: ...


@pytest.fixture(scope="module")
def zygote() -> Iterator[WorkerZygote]:
    with worker_zygote() as running:
        yield running


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
            await one.storm(scale(6, 60), 10 if workers > 1 else 4, scale(1, 3))
            wrong = await examine(one, await one.ended(scale(120, 900)))
    assert wrong == []
