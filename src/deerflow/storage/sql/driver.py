"""What stores see of a database, and SQLite: which library, which pragmas, which errors.

Statements are written once, for SQLite and PostgreSQL: parameters are `?`, upserts are
`ON CONFLICT`, new ids come by `RETURNING id`. What only PostgreSQL is told stands in a comment that
begins with `pg`: `SELECT … LIMIT ? /*pg FOR UPDATE SKIP LOCKED */`. Writers of SQLite are alone;
on PostgreSQL writes of one scope (thread) are alone among each other, and so are all writes without
a scope (see `deerflow.storage.postgres.database`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, cast

from deerflow.errors import StorageError
from deerflow.storage.sql.dialect import SQLITE, Dialect

if TYPE_CHECKING:
    from deerflow.storage.sql.batch import Batch

MINIMUM = (3, 42, 0)
"""Oldest SQLite that every part can use (DBOS needs `unixepoch('subsec')`)."""
BUSY_SECONDS = 10.0
PAGE_BYTES = 4096
CACHE_KIB = 512
"""Pages that a connection keeps for itself; SQLite would keep 2 MiB in each of a process's ten, of
a file that the system has in memory once."""
IDLE_PAGES, LAST_PAGES = 500, 20_000
"""Free pages (4 KiB) that are given back to the disk at once, when idle and at the end."""


class Cursor(Protocol):
    """The rows of a statement."""

    @property
    def rowcount(self) -> int:
        """Rows that were changed."""
        ...

    def fetchone(self) -> Any:
        """The next row as a tuple, None at the end."""
        ...

    def fetchall(self) -> list[Any]:
        """All further rows."""
        ...


class Connection(Protocol):
    """A connection in autocommit mode; of a `sqlite3` module, or one that looks like it."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, be it spoilt."""
        ...

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Cursor:
        """Run a statement."""
        ...

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> Cursor:
        """Run a statement once for each tuple of parameters."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class Database(Protocol):
    """A database that connections are opened to, where its kinds differ."""

    @property
    def dialect(self) -> Dialect:
        """How it says what databases do not say alike."""
        ...

    @property
    def growing_ids(self) -> bool:
        """Whether ids of new rows are always above all that there ever were."""
        ...

    def connect(self, *, read_only: bool = False) -> Connection:
        """Open a connection.

        Raises:
            StorageError: the database cannot be reached.
        """
        ...

    def begin(self, connection: Connection, *, alone: bool) -> None:
        """Begin a transaction that writes.

        Args:
            connection: to begin it on.
            alone: it holds writes that belong to no thread.
        """
        ...

    def lock(self, batch: Batch, keys: Sequence[str]) -> None:
        """Read threads that a transaction writes to, in an order that all processes keep."""
        ...

    def landed(self, connection: Connection) -> bool:
        """Whether the transaction whose COMMIT failed is committed all the same."""
        ...

    def again(self, error: Exception, tries: int) -> float | None:
        """Seconds until a transaction that failed is run again, None when it has failed for good.

        Args:
            error: a DatabaseError.
            tries: how often it has been run.
        """
        ...

    def tidy(self, connection: Connection, *, last: bool) -> bool:
        """Give the space of deleted threads back, a little at a time; whether there is more."""
        ...


def sqlite_module() -> ModuleType:
    """The pysqlite3 wheel where it is installed, else the standard library's sqlite3.

    Only the one that is used is loaded: each brings a library of its own.

    Raises:
        StorageError: neither will do.
    """
    found: Any = None
    with contextlib.suppress(ImportError):
        import pysqlite3.dbapi2 as found  # noqa: PLC0415  # there are no wheels for every platform
    if found is None or found.sqlite_version_info < MINIMUM:
        import sqlite3 as found  # noqa: PLC0415  # see above
    if found.sqlite_version_info < MINIMUM:
        raise StorageError(
            f"SQLite {found.sqlite_version} is too old.",
            cure="Install the package pysqlite3, or a Python with SQLite 3.42 or newer.",
        )
    return found


DRIVER = sqlite_module()
DatabaseError: type[Exception] = DRIVER.Error
"""Root of what a driver raises, errors of a server included."""


class ServerError(DatabaseError):  # pyright: ignore[reportGeneralTypeIssues, reportUntypedBaseClass]
    """What a database server or the way to it failed with.

    Attributes:
        meaning: the message for the user.
        state: SQLSTATE, "" when the server said nothing.
        lost: the connection is gone.
    """

    def __init__(self, meaning: StorageError, *, state: str = "", lost: bool = False) -> None:
        super().__init__(meaning.message)
        self.meaning = meaning
        self.state = state
        self.lost = lost

    @property
    def whole(self) -> bool:
        """Whether the whole transaction is to be run again, not this statement alone.

        Class 40 are deadlocks and serialization failures.
        """
        return self.lost or self.state.startswith("40")

    @property
    def raced(self) -> bool:
        """Whether another process has just written what this one was about to (23505)."""
        return self.state == "23505"


@dataclass(frozen=True, slots=True)
class SqliteFile:
    """A database in a file, its schema up to date (see `schema.prepare`)."""

    path: Path
    dialect: Dialect = SQLITE
    growing_ids: bool = False

    def connect(self, *, read_only: bool = False) -> Connection:
        """See Database."""
        return connect(self.path, read_only=read_only)

    def begin(self, connection: Connection, *, alone: bool) -> None:
        """See Database. SQLite has one writer at a time."""
        del alone
        connection.execute("BEGIN IMMEDIATE")

    def lock(self, batch: Batch, keys: Sequence[str]) -> None:
        """See Database. Each thread is read when it is needed."""

    def landed(self, connection: Connection) -> bool:
        """See Database. A COMMIT that fails has changed nothing."""
        del connection
        return False

    def again(self, error: Exception, tries: int) -> float | None:
        """See Database. SQLite waits for locks by itself."""
        del error, tries
        return None

    def tidy(self, connection: Connection, *, last: bool) -> bool:
        """See Database."""
        pages = LAST_PAGES if last else IDLE_PAGES
        try:
            connection.execute(f"PRAGMA incremental_vacuum({pages})").fetchall()
            left = connection.execute("PRAGMA freelist_count").fetchone()[0]
        except DatabaseError:  # busy or full: the pages stay free for new rows
            return False
        return left > 0


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
        connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
        if not read_only:
            connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute("PRAGMA journal_size_limit=1048576")
    except DatabaseError as error:
        raise translated(error) from error
    return cast(Connection, connection)


def translated(error: Exception) -> StorageError:
    """What a driver's error means to the user: a clear sentence, no path.

    SQLite result codes: https://www.sqlite.org/rescode.html
    """
    if isinstance(error, ServerError):
        return error.meaning
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
