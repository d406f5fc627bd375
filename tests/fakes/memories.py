"""Storages of memories of every kind, and processes that write to one."""

from __future__ import annotations

import asyncio
import random
import socket
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from deerflow.memory.deermem.facts import with_fact
from deerflow.memory.deermem.file import FileMemoryStorage
from deerflow.memory.deermem.sql import SqlMemoryStorage
from deerflow.memory.inmemory import InMemoryStorage
from deerflow.memory.protocol import Fact, MemoryDocument, MemoryStorage, Mutate

POSTGRES = "postgresql://postgres@127.0.0.1:5432/test"
KINDS = ("memory", "file", "sqlite", "postgres")
SHARED = ("file", "sqlite", "postgres")
"""Kinds that several processes may use."""


def has_postgres() -> bool:
    """Whether a server listens on the usual port of this machine."""
    try:
        with socket.create_connection(("127.0.0.1", 5432), timeout=2):
            return True
    except OSError:
        return False


def skip_reason(kind: str) -> str:
    """Why tests of a kind cannot run here, "" when they can."""
    if kind == "postgres" and not has_postgres():
        return "no PostgreSQL on 127.0.0.1:5432"
    return ""


@asynccontextmanager
async def opened(kind: str, folder: Path) -> AsyncGenerator[MemoryStorage]:
    """An empty storage of a kind; PostgreSQL gets a schema of its own, dropped afterwards."""
    schema = f"memory_{uuid.uuid4().hex[:12]}"
    storage = storage_at(kind, folder, schema)
    (folder / "schema").write_text(schema)
    try:
        yield storage
    finally:
        await storage.close()
        if kind == "postgres":
            await _drop(schema)


def storage_at(kind: str, folder: Path, schema: str) -> MemoryStorage:
    """A storage of a kind at a place."""
    if kind == "memory":
        return InMemoryStorage()
    if kind == "file":
        return FileMemoryStorage(folder / "memory")
    if kind == "sqlite":
        return SqlMemoryStorage(folder / "data" / "memory.db")
    return SqlMemoryStorage(POSTGRES, schema=schema)


async def _drop(schema: str) -> None:
    engine = create_async_engine(POSTGRES.replace("postgresql:", "postgresql+psycopg:"))
    async with engine.begin() as connection:
        await connection.execute(text(f"DROP SCHEMA IF EXISTS {schema} CASCADE"))
    await engine.dispose()


def adding(fact: Fact, what: str = "added 1 fact", *, max_facts: int = 10_000) -> Mutate:
    """A change that adds a fact."""

    def mutate(document: MemoryDocument) -> tuple[MemoryDocument, str]:
        return with_fact(document, fact, max_facts=max_facts)[0], what

    return mutate


def write_facts(kind: str, folder: Path, name: str, count: int, pipe: Connection) -> None:
    """In a process: add numbered facts; each that is durable goes down the pipe.

    Each is sent twice, as an entry of a queue that is delivered again is.
    """

    async def work() -> None:
        storage = storage_at(kind, folder, (folder / "schema").read_text())
        for number in range(count):
            fact = Fact(f"{name}-{number}", f"{name} wrote number {number}")
            for _ in range(2):
                await storage.update("ann", taking(fact))
            pipe.send(fact.id)
        await storage.close()

    asyncio.run(work())


def taking(fact: Fact) -> Mutate:
    """A change that adds a fact unless its entry has been taken in before."""

    def mutate(document: MemoryDocument) -> tuple[MemoryDocument, str] | None:
        if fact.id in document.taken:
            return None
        new = document.with_(facts=(*document.facts, fact), taken=(*document.taken, fact.id))
        return new, f"took {fact.id}"

    return mutate


class Writer:
    """A process that writes facts, and all that it has reported so far."""

    def __init__(
        self, context: ForkServerContext, kind: str, folder: Path, name: str, count: int
    ) -> None:
        self.name = name
        self.reported: list[str] = []
        self.pipe, sender = context.Pipe(duplex=False)
        self.process = context.Process(target=write_facts, args=(kind, folder, name, count, sender))
        self.process.start()
        sender.close()

    def take(self) -> bool:
        """Read one report; False when there are no more."""
        try:
            self.reported.append(self.pipe.recv())
        except EOFError:
            return False
        return True

    def finish(self) -> int | None:
        """Read everything until the process has ended; its exit code."""
        while self.take():
            pass
        self.process.join()
        return self.process.exitcode


def storm(start: Callable[[str], Writer], *, kills: int, between: int) -> list[Writer]:
    """Four writers at a time; after every `between` reports one of them is killed and replaced."""
    dice = random.Random(kills)
    living = [start(f"w{number}") for number in range(4)]
    everyone, reports = list(living), 0
    while len(everyone) < kills + 4:
        for pipe in wait([writer.pipe for writer in living]):
            writer = next(each for each in living if each.pipe is pipe)
            assert writer.take(), f"{writer.name} ended by itself"
            reports += 1
        if reports >= between:
            victim = living.pop(dice.randrange(4))
            victim.process.kill()
            victim.finish()
            living.append(start(f"w{len(everyone)}"))
            everyone.append(living[-1])
            reports = 0
    for writer in living:
        writer.process.kill()
        writer.finish()
    return everyone
