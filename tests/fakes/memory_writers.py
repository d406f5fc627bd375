"""Processes that tell a memory facts of one user at full speed, to be killed at random."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from multiprocessing.connection import Connection
from pathlib import Path

from deerflow.config.agents import MemoryBackendConfig
from deerflow.memory.deermem.deermem import DeerMem
from deerflow.memory.deermem.file import FileMemoryStorage
from deerflow.memory.deermem.queue import MemoryUpdateQueue
from deerflow.memory.deermem.sql import SqlMemoryStorage
from deerflow.memory.deermem.updater import MemoryUpdater
from deerflow.memory.protocol import Exchange, MemoryStorage
from deerflow.storage.sql.storage import SqliteStorage
from fakes.claimers import Ledger, leave
from fakes.extractor import Extractor

USER = "ann"
CONFIG = MemoryBackendConfig(max_facts=1_000_000)


def file_memory(path: Path) -> MemoryStorage:
    """The files beside a database."""
    return FileMemoryStorage(path.parent / "memory")


def sql_memory(path: Path) -> MemoryStorage:
    """The tables beside a database."""
    return SqlMemoryStorage(path.parent / "memory.db")


def write_files(path: Path, ledger: Path, pipe: Connection) -> None:
    """Tell facts into files until the time is over, see `last`."""
    asyncio.run(_write(file_memory(path), path, Ledger(ledger), pipe))
    leave(pipe)


def write_tables(path: Path, ledger: Path, pipe: Connection) -> None:
    """Tell facts into tables until the time is over, see `last`."""
    asyncio.run(_write(sql_memory(path), path, Ledger(ledger), pipe))
    leave(pipe)


def last(path: Path, *, seconds: float, least: int) -> None:
    """How long the writers go on, from the start of the first, and how many facts each tells."""
    (path.parent / "lasts").write_text(f"{seconds} {least}")


def _end(path: Path) -> tuple[float, int]:
    """When to stop (the monotonic clock is one for all processes), and the least number."""
    seconds, least = (path.parent / "lasts").read_text().split()
    begun, mine = path.parent / "begun", path.parent / f"begun-{os.getpid()}"
    mine.write_text(str(time.monotonic()))
    with contextlib.suppress(FileExistsError):
        os.link(mine, begun)
    return float(begun.read_text()) + float(seconds), int(least)


async def drain(memory: MemoryStorage, path: Path) -> int:
    """Take in what is left; how many entries remain even so."""
    stores = SqliteStorage(path)
    queue = _queue(stores, memory)
    left = (await queue.flush(seconds=60)).left
    await queue.close()
    await stores.close()
    return left


def _queue(stores: SqliteStorage, memory: MemoryStorage) -> MemoryUpdateQueue:
    return MemoryUpdateQueue(stores.memory_queue, MemoryUpdater(Extractor()), memory, CONFIG)


async def _write(memory: MemoryStorage, path: Path, ledger: Ledger, pipe: Connection) -> None:
    until, least = _end(path)
    stores = SqliteStorage(path)
    queue = _queue(stores, memory)
    by_hand = DeerMem(memory, None, CONFIG)
    number = 0
    while time.monotonic() < until or number < least:
        fact = f"{os.getpid()} says {number}"
        ledger.write(tries=fact)
        if number % 5 == 4:
            await by_hand.add(USER, fact)
        else:
            thread = f"t{number % 2}"
            key = (await stores.threads.ensure(USER, thread)).thread_key
            exchange = Exchange(f"remember: {fact};", "Noted.", fact, time.time(), thread)
            await queue.put(USER, key, exchange)
            await stores.flush()
        ledger.write(said=fact)
        pipe.send(number)
        if number % 3 == 2:
            await queue.flush(user_id=USER, seconds=5)
        number += 1
    await queue.close()
    await memory.close()
    await stores.close()
