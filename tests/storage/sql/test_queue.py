"""The queue of runs in a file: how long a run has waited, indexes, processes that compete."""

import asyncio
import time
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest

from deerflow.storage.protocol import NewRun
from deerflow.storage.sql import deliveries, queueing, runs
from deerflow.storage.sql import queue as asked
from deerflow.storage.sql.driver import connect
from deerflow.storage.sql.storage import SqliteStorage
from fakes.claimers import Competition, Ledger
from fakes.queued import queue
from fakes.run_claimers import RUNS, THREADS, work_on_runs


@pytest.mark.parametrize(
    ("change", "ready"),
    [
        ("created_at = 1", True),
        ("created_at = 1, not_before = 1", True),
        ("created_at = 1, not_before = {recent}", False),
        ("attempt = 1, created_at = 1", False),  # put back just now
    ],
)
async def test_since_when_a_run_is_ready(
    opened: Any, tmp_path: Path, change: str, ready: bool
) -> None:
    storage: SqliteStorage = opened()
    key = (await storage.threads.ensure("ann", "t1")).thread_key
    await queue(storage, key, "r1")
    connection = connect(tmp_path / "test.db")
    connection.execute(f"UPDATE runs SET {change.format(recent=time.time() - 1.0)}")
    connection.close()

    found = await storage.queue.ready(pending_for=30.0)
    await storage.close()
    assert [run.run_id for run in found] == (["r1"] if ready else [])


async def test_a_run_is_ready_since_the_end_of_the_one_before(opened: Any, tmp_path: Path) -> None:
    storage: SqliteStorage = opened()
    key = (await storage.threads.ensure("ann", "t1")).thread_key
    await queue(storage, key, "r1")
    await queue(storage, key, "r2", strategy="interrupt")
    connection = connect(tmp_path / "test.db")
    connection.execute("UPDATE runs SET created_at = 1")
    recent = await storage.queue.ready(pending_for=30.0)
    connection.execute("UPDATE runs SET ended_at = 2 WHERE run_id = 'r1'")
    connection.close()
    long = await storage.queue.ready(pending_for=30.0)
    await storage.close()

    assert (recent, [run.run_id for run in long]) == ([], ["r2"])


def statements() -> list[Any]:
    """Every statement that is asked often, whole."""
    texts = {
        "ready": asked._READY + asked._SINCE + asked._IN_ORDER,
        "next": f"{asked._READY} AND k.thread_key = ?",
        "blocking": asked._BLOCKING,
        "of_user": asked._OF_USER,
        "depth": asked._DEPTH,
        "open": queueing._OPEN,
        "by_key": queueing._BY_KEY,
        "first": runs.FIRST_OPEN,
        "after_end": runs._HEAD,
        "due": deliveries._DUE,
    }
    return [pytest.param(sql, id=name) for name, sql in texts.items()]


@pytest.mark.parametrize("sql", statements())
async def test_statements_use_an_index(opened: Any, sql: str) -> None:
    storage: SqliteStorage = opened()
    steps = await storage._readers.read(
        lambda c: [
            row[3]
            for row in c.execute(f"EXPLAIN QUERY PLAN {sql}", (1,) * sql.count("?")).fetchall()
        ]
    )
    await storage.close()

    assert any("USING" in step for step in steps)
    assert not [step for step in steps if step.startswith("SCAN")]


async def fill(storage: SqliteStorage) -> None:
    """Runs of several threads, all submitted."""
    for number in range(RUNS):
        thread = await storage.threads.ensure("ann", f"t{number % THREADS}")
        run = NewRun(f"r{number}", {}, strategy="enqueue")
        await storage.queue.submit(thread, run, new=False)
    await storage.close()


async def ends(storage: SqliteStorage) -> dict[str, str]:
    """How the runs ended."""
    found = [await storage.threads.run(f"r{number}") for number in range(RUNS)]
    await storage.close()
    return {run.run_id: run.status for run in found if run is not None}


def test_processes_with_kills_execute_every_run_in_the_order_of_its_thread(
    processes: ForkServerContext, opened: Any, tmp_path: Path, scale: Any
) -> None:
    for number in range(scale(1, 20)):
        (tmp_path / "test.db").unlink(missing_ok=True)
        ledger = Ledger(tmp_path / f"{number}.jsonl")
        asyncio.run(fill(opened()))
        killed = Competition(processes, work_on_runs, tmp_path / "test.db", ledger.path).run(
            kills=4
        )

        assert asyncio.run(ends(opened())) == {f"r{n}": "success" for n in range(RUNS)}
        assert killed
        check(ledger.read())


def check(lines: list[dict[str, Any]]) -> None:
    """In a thread one run at a time and none overtakes; twice only after the first was killed."""
    doing: dict[int, dict[str, Any]] = {}
    newest: dict[int, int] = {}
    dead = set[int]()
    for line in lines:
        if "kills" in line:
            dead.add(line["kills"])
        elif "does" in line:
            thread = line["does"] % THREADS
            before = doing.get(thread)
            assert before is None or before["pid"] in dead
            assert line["does"] >= newest.get(thread, -1)
            newest[thread], doing[thread] = line["does"], line
        elif "ends" in line:
            doing.pop(line["ends"] % THREADS, None)
