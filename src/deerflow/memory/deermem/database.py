"""Connections to a database of memories: SQLite or PostgreSQL, transactions, failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event, make_url, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from deerflow.errors import StorageError
from deerflow.memory.deermem.tables import Tables

BUSY_SECONDS = 10.0
"""How long a statement waits for a lock of another process."""

SETUP_LOCK = 0x6D656D6F7279
"""Key of PostgreSQL's advisory lock ("memory"): one process makes the tables."""


class Database:
    """Opens transactions; the tables are made with the first one.

    Attributes:
        lite: whether it is SQLite.
        tables: its tables.
    """

    def __init__(self, place: Path | str, schema: str) -> None:
        self._file = place if isinstance(place, Path) else None
        self._schema = schema
        self._engine = _engine(place)
        self._ready = False
        self._preparing = asyncio.Lock()
        self._writing = asyncio.Lock()  # tasks of this process queue; only processes must poll
        self.tables = Tables(schema or None)
        self.lite = self._engine.dialect.name == "sqlite"

    def nothing(self) -> bool:
        """Whether there is no file yet; asking makes none."""
        return self._file is not None and not self._ready and not self._file.exists()

    async def close(self) -> None:
        """Close the connections."""
        await self._engine.dispose()

    @asynccontextmanager
    async def open(self, *, write: bool = False) -> AsyncGenerator[AsyncConnection]:
        """A connection in a transaction; a writer of SQLite holds the only lock from the start.

        Raises:
            StorageError: the database failed, nothing was changed.
        """
        try:
            await self._prepare()
            async with self._connected(write=write) as connection:
                yield connection
        except (DBAPIError, OSError) as error:
            raise translated(error, self._file) from error

    @asynccontextmanager
    async def _connected(self, *, write: bool) -> AsyncGenerator[AsyncConnection]:
        async with self._engine.connect() as connection:
            if self.lite:
                connection = await connection.execution_options(immediate=write)
                if write:
                    async with self._writing:
                        yield connection
                        return
            elif write:
                await connection.execute(text(f"SET LOCAL lock_timeout = '{BUSY_SECONDS:.0f}s'"))
            else:  # two statements, one state
                connection = await connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    async def _prepare(self) -> None:
        """Make what is missing, once."""
        if self._ready:
            return
        async with self._preparing:
            if self._ready:
                return
            if self._file is not None:
                await asyncio.to_thread(self._file.parent.mkdir, parents=True, exist_ok=True)
            async with self._connected(write=False) as connection:
                there = await connection.run_sync(self.tables.exist)
            if there:  # so that a reader needs no lock
                self._ready = True
                return
            async with self._connected(write=True) as connection:
                if not self.lite:
                    await connection.execute(text(f"SELECT pg_advisory_xact_lock({SETUP_LOCK})"))
                await connection.run_sync(self.tables.make, self._schema)
                await connection.commit()
            self._ready = True


def _engine(place: Path | str) -> AsyncEngine:
    if isinstance(place, Path):
        engine = create_async_engine(
            f"sqlite+aiosqlite:///{place.absolute()}", connect_args={"timeout": BUSY_SECONDS}
        )
        event.listen(engine.sync_engine, "connect", _on_connect)
        event.listen(engine.sync_engine, "begin", _on_begin)
        return engine
    url = make_url(place).set(drivername="postgresql+psycopg")
    try:
        return create_async_engine(url, pool_pre_ping=True)
    except ModuleNotFoundError as error:
        raise StorageError(
            "The driver of PostgreSQL is not installed.",
            cure="Install deerflow with the extra postgres.",
        ) from error


def _on_connect(connection: Any, record: Any) -> None:
    """Transactions are begun by `_on_begin`, not by the driver."""
    del record
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "secure_delete=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _on_begin(connection: Connection) -> None:
    immediate = connection.get_execution_options().get("immediate")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def translated(error: Exception, file: Path | None) -> StorageError:
    """What a failure means to the user; nothing was changed.

    SQLite result codes: https://www.sqlite.org/rescode.html; PostgreSQL's SQLSTATE 55P03 is a lock
    that could not be had, class 40 a transaction that can be repeated.
    """
    cause = getattr(error, "orig", None) or error
    code = int(getattr(cause, "sqlite_errorcode", 0) or 0) & 0xFF
    state = str(getattr(cause, "sqlstate", "") or "")
    name = f"The memory database{f' {file.name}' if file else ''}"
    if code in (5, 6) or state == "55P03" or state.startswith("40"):
        found = StorageError(f"{name} is locked by another process.", cure="Try again in a moment.")
        found.retryable = True  # pyright: ignore[reportAttributeAccessIssue]  # of this one
        return found
    if code in (11, 26):
        return StorageError(
            f"{name} is damaged and was left as it is.",
            cure="Restore it from a backup; or move it away to begin with an empty memory.",
        )
    reason = str(cause).splitlines()[0] if str(cause) else type(cause).__name__
    cure = "Check the server and its address." if file is None else "Check the disk and the folder."
    return StorageError(f"{name} failed ({reason}); nothing was changed.", cure=cure)
