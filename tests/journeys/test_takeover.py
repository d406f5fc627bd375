"""What becomes of runs whose worker dies, sleeps too long, or is told to stop."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest

from fakes.chaos import Chaos, chaos, examine, until
from fakes.postgres import need_postgres, served_schema
from fakes.serving import Site, WorkerZygote


@pytest.fixture(scope="module")
def database() -> Iterator[dict[str, str]]:
    need_postgres()
    with served_schema() as found:
        yield found


@pytest.fixture
async def two(
    zygote: WorkerZygote, database: dict[str, str], tmp_path: Path
) -> AsyncGenerator[Chaos]:
    """Two workers, neither with room for all; the runs take a few seconds each."""
    site = Site(str(tmp_path), database, {"lease_seconds": 3, "concurrent_runs": 5}, latency=0.4)
    async with chaos(site, zygote, 2) as one:
        await until(lambda: len(site.read("ready")) == 2)
        yield one


async def busy(one: Chaos, runs: int) -> dict[int, set[str]]:
    """Hand runs in until both workers are at work; which runs each has touched, by its pid."""
    base = len(one.runs)
    for number in range(base, base + runs):
        await one.submit(number)
    mine = {run.run_id for run in one.runs}

    def at_work() -> dict[int, set[str]]:
        found: dict[int, set[str]] = {}
        for line in one.site.read("effects"):
            if line["run"] in mine:
                found.setdefault(line["pid"], set()).add(line["run"])
        return found

    await until(lambda: len(at_work()) == 2)
    return at_work()


async def test_runs_of_a_killed_worker_go_on_at_once(two: Chaos) -> None:
    """On the same machine nobody waits for the lease."""
    at_work = await busy(two, 8)
    victim = two.workers[0]
    await asyncio.to_thread(victim.kill)
    two.kills.append(time.time())
    rows = await two.ended(60)
    assert await examine(two, rows) == []
    taken = [row for row in rows if row.run_id in at_work[victim.pid]]
    assert any(row.attempt > 1 for row in taken)
    handed = [
        event.created_at
        for reader in two.readers.values()
        for event in reader.result()
        if event.type == "handed_over"
    ]
    assert handed
    assert max(handed) - two.kills[0] < 12
    two.workers.remove(victim)


async def test_a_worker_that_slept_too_long_writes_nothing_more(two: Chaos) -> None:
    at_work = await busy(two, 8)
    sleeper, other = two.workers
    os.kill(sleeper.pid, signal.SIGSTOP)
    try:
        two.kills.append(time.time())
        rows = await two.ended(60)
    finally:
        os.kill(sleeper.pid, signal.SIGCONT)
    assert {row.status for row in rows} == {"success"}
    assert any(row.attempt > 1 for row in rows if row.run_id in at_work[sleeper.pid])
    # it comes to itself, and works on under another name
    seen = len(two.runs)
    await asyncio.to_thread(other.kill)
    two.workers.remove(other)
    for number in range(seen, seen + 2):
        await two.submit(number)
    rows = await two.ended(60)
    assert await examine(two, rows) == []
    assert {line["pid"] for line in two.site.read("effects")[-2:]} == {sleeper.pid}


async def test_a_worker_that_is_told_to_stop_hands_its_runs_over(two: Chaos) -> None:
    at_work = await busy(two, 8)
    leaver = two.workers[0]
    begun = time.monotonic()
    code = await asyncio.to_thread(leaver.signal, signal.SIGTERM)
    lasted = time.monotonic() - begun
    two.workers.remove(leaver)
    assert code == 0
    assert lasted < 15
    rows = await two.ended(60)
    assert await examine(two, rows) == []  # nobody died: no outcome is unknown
    moved = [row for row in rows if row.run_id in at_work[leaver.pid] and row.attempt > 1]
    assert moved
    log = await two.storage.events.read(moved[0].thread_key, limit=10_000)
    assert "handed_over" in {event.type for event in log}
