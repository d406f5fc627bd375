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
"""Seconds between two looks of an idle process, and the mean of a piece of work."""


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
    leave(pipe)


async def _work_on_batch(storage: Storage, ledger: Ledger, pipe: Connection) -> None:
    dice = random.Random(os.getpid())
    while (await storage.batches.counts("b1")).keys() != {"done"}:
        if dice.random() < 0.3:
            await storage.batches.reopen("b1")
        items = await storage.batches.claim("b1", 2)
        for item in items:
            ledger.write(does=item.index, attempts=item.attempts)
            pipe.send(item.index)
            await asyncio.sleep(dice.uniform(0, 2 * PAUSE))
            storage.batches.settle("b1", item.index, "done", str(2 * int(item.item)))
        if not items:
            await asyncio.sleep(PAUSE)
    await storage.close()


def work_on_queue(path: Path, ledger: Path, pipe: Connection) -> None:
    """Queue ten entries between claims, then claim until the queue is empty."""
    asyncio.run(_work_on_queue(SqliteStorage(path), Ledger(ledger), pipe))
    leave(pipe)


def leave(pipe: Connection) -> None:
    """Say so and wait for leave, so that nobody kills a pid that is no longer this process's."""
    pipe.send(None)
    pipe.recv()


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
        await asyncio.sleep(dice.uniform(0, 2 * PAUSE))
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


class Competition:
    """Four processes at once; each killed one is followed by a new one.

    Attributes:
        killed: pids of those that were killed; the ledger has a line `kills` right before it.
    """

    def __init__(
        self, processes: ForkServerContext, target: Target, path: Path, ledger: Path
    ) -> None:
        self._processes = processes
        self._target = target
        self._paths = (path, ledger)
        self._dice = random.Random(os.urandom(8))
        self._living: dict[Connection, BaseProcess] = {}
        self._leaving: set[Connection] = set()
        self.killed: set[int] = set()

    def run(self, kills: int) -> set[int]:
        """Until all have ended; a kill comes after a random number of messages."""
        for _ in range(4):
            self._start()
        until_kill = self._dice.randrange(1, 25)
        while self._living:
            for pipe in wait(list(self._living)):
                self._hear(cast("Connection", pipe))
                until_kill -= 1
                if until_kill <= 0 and len(self.killed) < kills:
                    self._kill()
                    until_kill = self._dice.randrange(1, 25)
        return self.killed

    def _start(self) -> None:
        ours, theirs = self._processes.Pipe()
        args = (*self._paths, theirs)
        child = self._processes.Process(target=self._target, args=args, daemon=True)
        child.start()
        theirs.close()
        self._living[ours] = child

    def _hear(self, pipe: Connection) -> None:
        try:
            if pipe.recv() is None:
                self._leaving.add(pipe)
                pipe.send("you may")
        except (EOFError, OSError):
            child = self._living.pop(pipe)
            pipe.close()
            child.join()
            assert child.exitcode == (-signal.SIGKILL if child.pid in self.killed else 0)

    def _kill(self) -> None:
        """Kill one that exists for sure: it waits for leave before it ends."""
        found = [
            child
            for pipe, child in self._living.items()
            if pipe not in self._leaving and child.pid not in self.killed
        ]
        if found:
            pid = cast("int", self._dice.choice(found).pid)
            Ledger(self._paths[1]).write(kills=pid)
            self.killed.add(pid)
            os.kill(pid, signal.SIGKILL)
            self._start()
