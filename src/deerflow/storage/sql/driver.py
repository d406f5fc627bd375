"""The SQLite module and its connections: which library, which pragmas, which errors."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from types import ModuleType
from typing import cast

from deerflow.errors import StorageError

MINIMUM = (3, 42, 0)
"""Oldest SQLite that every part can use (DBOS needs `unixepoch('subsec')`)."""
BUSY_SECONDS = 10.0
PAGE_BYTES = 4096

Connection = sqlite3.Connection
"""Connections of both modules have this shape."""


def sqlite_module() -> ModuleType:
    """The standard library's sqlite3, or the pysqlite3 wheel where that one is older than MINIMUM.

    Raises:
        StorageError: neither will do.
    """
    if sqlite3.sqlite_version_info >= MINIMUM:
        return sqlite3
    try:
        import pysqlite3.dbapi2 as newer  # noqa: PLC0415  # only where SQLite is too old
    except ImportError as error:
        raise StorageError(
            f"SQLite {sqlite3.sqlite_version} is too old.",
            cure="Install the package pysqlite3, or a Python with SQLite 3.42 or newer.",
        ) from error
    return cast(ModuleType, newer)


DRIVER = sqlite_module()
DatabaseError: type[Exception] = DRIVER.Error
"""Root of what the driver raises."""


def connect(path: Path, *, read_only: bool = False) -> Connection:
    """Open a connection in autocommit mode; transactions are begun by hand.

    Raises:
        StorageError: the file cannot be opened.
    """
    mode = "?mode=ro" if read_only else ""
    try:
        connection = DRIVER.connect(
            f"{path.absolute().as_uri()}{mode}",
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
            uri=True,
        )
        if not read_only:
            connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute("PRAGMA journal_size_limit=1048576")
    except DatabaseError as error:
        raise translated(error) from error
    return connection


def translated(error: Exception) -> StorageError:
    """What a driver's error means to the user: a clear sentence, no path.

    SQLite result codes: https://www.sqlite.org/rescode.html
    """
    code = int(getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF
    message, cure, retryable = _MEANING.get(
        code, (f"The database failed: {error}.", "Look at the log of the server.", False)
    )
    found = StorageError(message, cure=cure)
    found.retryable = retryable  # pyright: ignore[reportAttributeAccessIssue]  # of this one
    return found


_MEANING = {
    5: ("The database is locked by another process.", "Try again in a moment.", True),
    8: ("The database is read-only.", "Make DEER_FLOW_HOME writable.", False),
    10: ("Reading or writing the database failed.", "Check the disk.", False),
    11: ("The database file is damaged.", "Restore it from a backup.", False),
    13: ("The disk is full; nothing was half-written.", "Free some space and try again.", True),
    14: ("The database file cannot be opened.", "Make DEER_FLOW_HOME writable.", False),
    26: ("The database file is not an SQLite database.", "Restore it from a backup.", False),
}
