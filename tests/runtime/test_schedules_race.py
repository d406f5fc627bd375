"""Four processes on one file, killed at random: every occurrence has exactly one run."""

import asyncio
import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from dataclasses import replace
from datetime import datetime
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from deerflow.runtime.planning import Task, planned
from deerflow.runtime.request import RunRequest
from deerflow.storage.protocol import ScheduledRun, ScheduleRow
from deerflow.storage.sql.schema import prepare
from deerflow.storage.sql.storage import SqliteStorage
from fakes.schedulers import ON, Clock, scheduler, tick_for_ever

BEGIN = 1_800_000_000.0
"""A full minute, so that occurrences are whole seconds from here."""
EVERY_SECOND = "* * * * * *"
"""Not offered to clients; rows may hold it."""


@pytest.fixture(scope="session")
def processes() -> ForkServerContext:
    """Starts processes quickly: what they import is imported once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["deerflow.runtime.schedules", "deerflow.storage.sql.storage"])
    first = context.Process(target=os.getpid)
    first.start()
    first.join()
    return context


def every_second(schedule_id: str, thread_id: str | None) -> ScheduleRow:
    """A task that is due at BEGIN and every second after."""
    task = Task(RunRequest("Go.", thread_id=thread_id), cron="* * * * *", catch_up="all")
    row = planned(schedule_id, "ann", task, BEGIN - 90, None)
    return replace(row, next_at=BEGIN, data={**row.data, "cron": EVERY_SECOND})


async def planned_tasks(path: Path) -> None:
    """Two tasks, one with a thread of its own for each run, one in a thread that is there."""
    storage = SqliteStorage(path)
    await storage.threads.ensure("ann", "t1")
    await storage.schedules.put(every_second("s1", None))
    await storage.schedules.put(every_second("s2", "t1"))
    await storage.close()


def kill_at_random(
    processes: ForkServerContext, path: Path, clock: Clock, seconds: float, every: float
) -> int:
    """Four processes tick; one after the other is killed and started again. How many kills."""

    def start() -> tuple[BaseProcess, Connection]:
        ours, theirs = processes.Pipe(duplex=False)
        child = processes.Process(target=tick_for_ever, args=(path, clock, theirs), daemon=True)
        child.start()
        theirs.close()
        return child, ours

    chance = random.Random(os.urandom(8))
    children = [start() for _ in range(4)]
    end, kills = time.monotonic() + seconds, 0
    while time.monotonic() < end or kills < 4:
        victim = chance.randrange(4)
        child, pipe = children[victim]
        pipe.recv()
        time.sleep(chance.random() * 2 * every)  # the moment of the kill, not a synchronisation
        assert child.exitcode is None, "it fell over by itself"
        end_by_force(child, pipe)
        kills += 1
        children[victim] = start()
    for child, pipe in children:
        end_by_force(child, pipe)
    return kills


def end_by_force(child: BaseProcess, pipe: Connection) -> None:
    """kill -9, at whatever it is."""
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    pipe.close()


async def whole_history(path: Path) -> dict[str, list[ScheduledRun]]:
    """What the file holds once somebody has finished what the dead had begun."""
    storage = SqliteStorage(path)
    found, _ = scheduler(storage, ON.model_copy(update={"max_concurrent_runs": 1_000_000}))
    while await storage.schedules.unstarted():
        await found.tick(BEGIN)  # nothing further is due then
    history = {name: await storage.schedules.runs(name, limit=1000) for name in ("s1", "s2")}
    pairs = await storage.queue.of_user("ann", limit=100_000)
    made = Counter((r.metadata["schedule_id"], r.metadata["scheduled_for"]) for _, r in pairs)
    ids = {run.run_id for _, run in pairs}
    assert set(made.values()) == {1}, "an occurrence was started twice"
    started = [entry.run_id for entries in history.values() for entry in entries if entry.run_id]
    assert len(pairs) == len(started)
    assert ids == set(started)
    for (name, meant), _ in made.items():
        at = datetime.fromisoformat(meant).timestamp()
        assert any(entry.occurrence == at for entry in history[name])
    await storage.close()
    return history


def test_every_occurrence_has_one_run(
    processes: ForkServerContext, tmp_path: Path, scale: Any
) -> None:
    path = tmp_path / "test.db"
    prepare(path)
    asyncio.run(planned_tasks(path))
    seconds = scale(3, 40)
    clock = Clock(BEGIN, speed=5)

    kills = kill_at_random(processes, path, clock, seconds, every=0.25)

    history = asyncio.run(whole_history(path))
    assert kills >= 4
    for entries in history.values():
        times = [entry.occurrence for entry in reversed(entries)]
        assert times == [BEGIN + n for n in range(len(times))], "an occurrence was left out"
        assert len(times) > seconds
        assert {entry.note for entry in entries} == {"started"}
