"""The queue of memories that several processes fill and empty, some of them killed."""

import asyncio
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from deerflow.storage.protocol import QueuedExchange
from deerflow.storage.sql.storage import SqliteStorage
from fakes.claimers import Competition, Ledger, work_on_queue

DEAD = "999999999:1:no-such-boot"


async def test_a_dead_process_does_not_block_its_user(opened: Any) -> None:
    storages: list[SqliteStorage] = [opened(DEAD), opened()]
    dead, mine = (storage.memory_queue for storage in storages)
    key = (await storages[1].threads.ensure("ann", "t1")).thread_key
    for number, queue in enumerate((dead, mine)):
        entry = QueuedExchange(f"e{number}", "ann", "t1", key, {}, float(number))
        await queue.enqueue(entry, debounce=0.0, ceiling=0.0)
        if queue is dead:
            assert len(await dead.claim(now=9.0)) == 1

    assert [entry.entry_id for entry in await mine.claim(now=9.0)] == ["e0", "e1"]
    assert await dead.claim(now=9.0) == []
    for storage in storages:
        await storage.close()


async def left(storage: SqliteStorage) -> int:
    """How many entries are still queued."""
    count = await storage.memory_queue.pending()
    await storage.close()
    return count


def check(lines: list[dict[str, Any]]) -> set[str]:
    """Read the ledger: one process per user at a time; gives the entries that were handed out."""
    holder: dict[str, int] = {}
    killed, taken, queued = set[int](), set[str](), set[str]()
    for line in lines:
        pid, user = line["pid"], line.get("user", "")
        if "kills" in line:
            killed.add(line["kills"])
        elif "queued" in line:
            queued.add(line["queued"])
        elif "takes" in line:
            assert holder.get(user) in {None, *killed}, "handed out twice at the same time"
            holder[user] = pid
            taken.update(line["takes"])
        else:
            assert holder.pop(user) == pid
    assert queued <= taken, "a queued entry was lost"
    return taken


def test_four_processes_with_kills_lose_and_double_nothing(
    processes: ForkServerContext, opened: Any, tmp_path: Path, scale: Any
) -> None:
    for number in range(scale(1, 30)):
        (tmp_path / "test.db").unlink(missing_ok=True)
        ledger = Ledger(tmp_path / f"{number}.jsonl")
        asyncio.run(left(opened()))
        competition = Competition(processes, work_on_queue, tmp_path / "test.db", ledger.path)
        killed = competition.run(kills=3)

        assert killed
        assert len(check(ledger.read())) >= 40
        assert asyncio.run(left(opened())) == 0
