"""Reads beside the writer: a small pool of threads, each with its own read-only connection."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from deerflow.errors import StorageError
from deerflow.storage.sql.driver import Connection, DatabaseError, connect, translated
from deerflow.storage.sql.writer import Writer

T = TypeVar("T")
THREADS = 2
"""Readers at once; SQLite's own work is short and the rest is Python under one lock."""


class Readers:
    """Runs queries off the loop.

    Args:
        path: database file.
        writer: whose queued writes a read of the same scope must see.
    """

    def __init__(self, path: Path, writer: Writer) -> None:
        self._path = path
        self._writer = writer
        self._local = threading.local()
        self._open: list[Connection] = []
        self._closed = False
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="deerflow-reader")

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
        try:
            return query(self._connection())
        except DatabaseError as error:
            raise translated(error) from error
        except UnicodeEncodeError as error:
            raise StorageError("An id holds characters that no text encoding has.") from error

    def _connection(self) -> Connection:
        found: Connection | None = getattr(self._local, "connection", None)
        if found is None:
            found = self._local.connection = connect(self._path, read_only=True)
            self._open.append(found)
        return found
