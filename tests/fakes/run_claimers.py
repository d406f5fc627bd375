"""Worker processes that claim runs of one queue at once, to be killed at random."""

from __future__ import annotations

import asyncio
import random
import secrets
from multiprocessing.connection import Connection
from pathlib import Path

from deerflow.storage.owner import this_owner
from deerflow.storage.protocol import Storage
from deerflow.storage.sql.storage import SqliteStorage
from fakes.claimers import PAUSE, Ledger, leave

RUNS, THREADS = 60, 4


def work_on_runs(path: Path, ledger: Path, pipe: Connection) -> None:
    """Claim what is ready and take over from the dead, until nothing is unfinished."""
    asyncio.run(_work(SqliteStorage(path), Ledger(ledger), pipe))
    leave(pipe)


async def _work(storage: Storage, ledger: Ledger, pipe: Connection) -> None:
    dice, worker = random.Random(secrets.token_bytes(8)), f"w-{secrets.token_hex(8)}"
    await storage.workers.register(worker, this_owner(), seconds=600.0)
    while await storage.queue.depth():
        for row in await storage.workers.dead():
            await storage.workers.take_over(row.worker_id)
        ready = await storage.queue.ready(limit=4)
        run = await storage.queue.claim(dice.choice(ready).run_id, worker) if ready else None
        if run is None:
            await asyncio.sleep(PAUSE)
            continue
        storage.workers.fence(run.thread_key, worker)
        number = int(run.run_id[1:])
        ledger.write(does=number, attempt=run.attempt)
        pipe.send(number)
        await asyncio.sleep(dice.uniform(0, 2 * PAUSE))
        ledger.write(ends=number)
        await storage.threads.end_run(run.run_id, status="success", outcome=None)
        storage.workers.fence(run.thread_key, None)
    await storage.workers.retire(worker)
    await storage.close()
