"""Processes that claim the same work at once, to be killed at random; a ledger tells what happened.

The ledger is a file to which every process appends whole lines (O_APPEND, one write), so its order
is the order of what is told in it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, cast

from deerflow.storage.protocol import QueuedExchange, Storage
from deerflow.storage.sql.storage import SqliteStorage

PAUSE = 0.002
"""Seconds between two looks of a process that has nothing to do."""


class Ledger:
    """What the processes tell, in order."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, **line: Any) -> None:
        """Append one line, whole or not at all."""
        text = json.dumps({"pid": os.getpid(), **line}) + "\n"
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, text.encode())
        finally:
            os.close(file)

    def read(self) -> list[dict[str, Any]]:
        """Every line, oldest first."""
        return [json.loads(line) for line in self.path.read_text().splitlines()]


def work_on_batch(path: Path, ledger: Path, pipe: Connection) -> None:
    """Claim items two by two and settle each with its double, until the whole batch is done."""
    asyncio.run(_work_on_batch(SqliteStorage(path), Ledger(ledger), pipe))


async def _work_on_batch(storage: Storage, ledger: Ledger, pipe: Connection) -> None:
    while (await storage.batches.counts("b1")).keys() != {"done"}:
        items = await storage.batches.claim("b1", 2)
        for item in items:
            ledger.write(does=item.index, attempts=item.attempts)
            pipe.send(item.index)
            await asyncio.sleep(0)
            storage.batches.settle("b1", item.index, "done", str(2 * int(item.item)))
        if not items:
            await asyncio.sleep(PAUSE)
            await storage.batches.reopen("b1")
    await storage.close()


def work_on_queue(path: Path, ledger: Path, pipe: Connection) -> None:
    """Queue ten entries between claims, then claim until the queue is empty."""
    asyncio.run(_work_on_queue(SqliteStorage(path), Ledger(ledger), pipe))


async def _work_on_queue(storage: Storage, ledger: Ledger, pipe: Connection) -> None:
    queue, dice, number = storage.memory_queue, random.Random(os.getpid()), 0
    while number < 10 or await queue.pending():
        if number < 10:
            entry = await _entry(storage, f"{os.getpid()}-{number}", dice)
            await queue.enqueue(entry, debounce=0.0, ceiling=1.0)
            ledger.write(queued=entry.entry_id)
            number += 1
        found = await queue.claim(now=1e9)
        if not found:
            await asyncio.sleep(PAUSE)
            continue
        ids, user = [entry.entry_id for entry in found], found[0].user_id
        ledger.write(takes=ids, user=user)
        pipe.send(len(ids))
        await asyncio.sleep(0)
        ledger.write(leaves=ids, user=user)
        if dice.random() < 0.2:
            await queue.release(ids, due_at=0.0)
        else:
            await queue.complete(ids)
    await storage.close()


async def _entry(storage: Storage, id: str, dice: random.Random) -> QueuedExchange:
    user, thread = dice.choice("ab"), dice.choice(["t1", "t2"])
    key = (await storage.threads.ensure(user, thread)).thread_key
    return QueuedExchange(id, user, thread, key, {}, dice.random())


Target = Callable[[Path, Path, Connection], None]


def compete(
    processes: ForkServerContext, target: Target, path: Path, ledger: Path, kills: int
) -> set[int]:
    """Four processes at once; each killed one is followed by a new one. Gives the killed pids.

    A kill comes after a random number of messages, at a random process; the ledger has a line
    `kills` right before it.
    """
    dice, killed = random.Random(os.urandom(8)), set[int]()
    living: dict[Connection, BaseProcess] = {}

    def start() -> None:
        ours, theirs = processes.Pipe(duplex=False)
        child = processes.Process(target=target, args=(path, ledger, theirs), daemon=True)
        child.start()
        theirs.close()
        living[ours] = child

    def hear(pipe: Connection) -> None:
        try:
            pipe.recv()
        except (EOFError, OSError):
            child = living.pop(pipe)
            pipe.close()
            child.join()
            assert child.exitcode == (-signal.SIGKILL if child.pid in killed else 0)

    def kill() -> None:
        child = dice.choice([c for c in living.values() if c.pid not in killed])
        assert child.pid is not None
        Ledger(ledger).write(kills=child.pid)
        killed.add(child.pid)
        os.kill(child.pid, signal.SIGKILL)
        start()

    for _ in range(4):
        start()
    until_kill = dice.randrange(1, 30)
    while living:
        for pipe in wait(list(living)):
            hear(cast("Connection", pipe))
            until_kill -= 1
            if until_kill <= 0 and len(killed) < kills and set_of(living) - killed:
                kill()
                until_kill = dice.randrange(1, 30)
    return killed


def set_of(living: dict[Connection, BaseProcess]) -> set[int | None]:
    """Pids of the processes."""
    return {child.pid for child in living.values()}
