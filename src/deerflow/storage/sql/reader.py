"""Reads beside the writer: a small pool of threads, each with its own read-only connection."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from deerflow.errors import StorageError
from deerflow.storage.sql.driver import Connection, Database, DatabaseError, translated
from deerflow.storage.sql.writer import Writer

T = TypeVar("T")
THREADS = 2
"""Readers at once; a query's own work is short and the rest is Python under one lock."""


class Readers:
    """Runs queries off the loop.

    Args:
        database: where to read.
        writer: whose queued writes a read of the same scope must see.
        threads: how many read at once, each with its own connection.
    """

    def __init__(self, database: Database, writer: Writer, threads: int = THREADS) -> None:
        self._database = database
        self._writer = writer
        self._local = threading.local()
        self._open: list[Connection] = []
        self._closed = False
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="deerflow-reader")

    async def read(self, query: Callable[[Connection], T], *, scope: str | None = None) -> T:
        """The query's result.

        Args:
            query: runs in a reader's thread.
            scope: wait first for the queued writes of this thread key ("" = of all, None = of
                none).

        Raises:
            StorageError: the database failed or is closed.
        """
        if scope is not None:
            await self._writer.settle(scope)
        if self._closed:
            raise StorageError("The storage is closed.")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._run, query)

    async def close(self) -> None:
        """Wait for running reads and close the connections."""
        self._closed = True
        await asyncio.to_thread(self._pool.shutdown)
        for connection in self._open:
            connection.close()

    def _run(self, query: Callable[[Connection], T]) -> T:
        tries = 0
        try:
            while True:
                try:
                    return query(self._connection())
                except DatabaseError as error:
                    tries += 1
                    wait = self._database.again(error, tries)
                    if wait is None or self._closed:
                        raise translated(error) from error
                    time.sleep(wait)
        except UnicodeEncodeError as error:
            raise StorageError("An id holds characters that no text encoding has.") from error

    def _connection(self) -> Connection:
        found: Connection | None = getattr(self._local, "connection", None)
        if found is None:
            found = self._local.connection = self._database.connect(read_only=True)
            self._open.append(found)
        return found
