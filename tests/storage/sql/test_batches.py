"""Batches that several processes work on, some of them killed."""

import asyncio
import os
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from deerflow.storage.owner import owner_of
from deerflow.storage.protocol import BatchItem, BatchRow
from deerflow.storage.sql.storage import SqliteStorage
from fakes.claimers import Competition, Ledger, work_on_batch

DEAD = "999999999:1:no-such-boot"
ITEMS = 200


async def test_the_items_of_another_living_process_stay_its_own(opened: Any) -> None:
    storages: list[SqliteStorage] = [opened(owner_of(os.getppid())), opened(DEAD), opened()]
    parent, dead, mine = storages
    key = (await mine.threads.ensure("ann", "t1")).thread_key
    await mine.batches.create(BatchRow("b1", "ann", key, "r1", 4), list("0123"))
    await parent.batches.claim("b1", 2)
    await dead.batches.claim("b1", 1)

    assert await mine.batches.reopen("b1") == 1
    taken = await mine.batches.claim("b1", 9)
    assert [(item.index, item.attempts) for item in taken] == [(2, 2), (3, 1)]
    for storage in storages:
        await storage.close()


async def create(storage: SqliteStorage) -> None:
    """The batch."""
    key = (await storage.threads.ensure("ann", "t1")).thread_key
    items = [str(number) for number in range(ITEMS)]
    await storage.batches.create(BatchRow("b1", "ann", key, "r1", ITEMS), items)
    await storage.close()


async def result(storage: SqliteStorage) -> list[BatchItem]:
    """All items."""
    found = await storage.batches.items("b1")
    await storage.close()
    return found


def test_four_processes_with_kills_do_every_item_once_except_those_in_flight(
    processes: ForkServerContext, opened: Any, tmp_path: Path, scale: Any
) -> None:
    for number in range(scale(1, 30)):
        (tmp_path / "test.db").unlink(missing_ok=True)
        ledger = Ledger(tmp_path / f"{number}.jsonl")
        asyncio.run(create(opened()))
        competition = Competition(processes, work_on_batch, tmp_path / "test.db", ledger.path)
        killed = competition.run(kills=6)

        items = asyncio.run(result(opened()))
        assert [(i.status, i.result) for i in items] == [("done", str(2 * n)) for n in range(ITEMS)]
        assert len(killed) == 6
        lines = [line for line in ledger.read() if "does" in line]
        for item in items:
            pids = [line["pid"] for line in lines if line["does"] == item.index]
            assert set(pids[:-1]) <= killed, "done by two living processes"
            assert len(set(pids)) == len(pids) <= item.attempts
        in_flight = sum(item.attempts - 1 for item in items)
        assert in_flight <= 2 * len(killed)
