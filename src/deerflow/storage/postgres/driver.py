"""A PostgreSQL connection that looks like one of `sqlite3`, and what its errors mean."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import psycopg
from psycopg import pq

from deerflow.errors import RecordError, StorageError
from deerflow.storage.sql.driver import Cursor, ServerError

_HINT = re.compile(r"/\*pg (.*?)\*/")
_OPEN = (pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR)
_AWAY = ("08", "57P01", "57P02", "57P03", "53300")
"""SQLSTATE of a server that is not there for us: connection failures, shutdown, too many clients
(postgresql.org/docs/current/errcodes-appendix.html)."""


@functools.lru_cache(maxsize=1024)
def translate(sql: str) -> str:
    """A statement of the stores as psycopg takes it."""
    return _HINT.sub(r"\1", sql).replace("%", "%%").replace("?", "%s")


def _values(parameters: Sequence[Any]) -> list[Any]:
    """Parameters as the columns have them: a bool is a number."""
    return [int(value) if isinstance(value, bool) else value for value in parameters]


class PostgresConnection:
    """One connection in autocommit mode.

    Args:
        info: connection string of libpq.
        options: keywords of libpq.
        opened: called when a connection was made.
        renewed: seconds after which a connection is replaced, and at once when it is lost; None
            for one that only `reopen` replaces, because it may hold a transaction.
    """

    def __init__(
        self,
        info: str,
        options: dict[str, Any],
        opened: Callable[[], None],
        renewed: float | None = None,
    ) -> None:
        self._info = info
        self._options = options
        self._opened = opened
        self._renewed = renewed
        self._made_at = 0.0
        self._raw: psycopg.Connection[tuple[Any, ...]] | None = None

    @property
    def raw(self) -> psycopg.Connection[tuple[Any, ...]]:
        """The connection itself.

        Raises:
            ServerError: there is none, and none can be made.
        """
        if self._renewed is not None:
            if self._raw is not None and time.monotonic() - self._made_at > self._renewed:
                self._raw.close()
            return self.reopen()
        if self._raw is None:
            raise ServerError(StorageError("The connection to the database is lost."), lost=True)
        return self._raw

    def reopen(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Make a connection when there is none.

        Raises:
            ServerError: the server cannot be reached.
        """
        if self._raw is None or self._raw.closed:
            self._raw = None
            try:
                self._raw = psycopg.connect(self._info, autocommit=True, **self._options)
            except psycopg.Error as error:
                raise _refusal(error) from error
            self._made_at = time.monotonic()
            self._opened()
        return self._raw

    def begin(self, statement: str) -> Any:
        """Reconnect when that is needed and begin a transaction.

        Args:
            statement: run right after BEGIN on the same way; its row is returned.
        """
        cursor = self.reopen().cursor()
        try:
            cursor.execute(f"BEGIN; {statement}")  # pyright: ignore[reportArgumentType, reportCallIssue]  # our own text
            cursor.nextset()
            return cursor.fetchone()
        except psycopg.Error as error:
            raise server_error(error, lost=not self.is_open) from error

    @property
    def is_open(self) -> bool:
        """Whether there is a connection, as far as is known."""
        return self._raw is not None and not self._raw.closed

    @property
    def in_transaction(self) -> bool:
        """See Connection."""
        raw = self._raw
        return raw is not None and not raw.closed and raw.info.transaction_status in _OPEN

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Cursor:
        """See Connection. Raises ServerError."""
        cursor = self.raw.cursor(binary=True)
        try:
            return cursor.execute(translate(sql), _values(parameters))  # pyright: ignore[reportReturnType, reportArgumentType]
        except psycopg.Error as error:
            raise server_error(error, lost=not self.is_open) from error

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> Cursor:
        """See Connection. Raises ServerError."""
        cursor = self.raw.cursor(binary=True)
        try:
            cursor.executemany(translate(sql), [_values(values) for values in parameters])  # pyright: ignore[reportArgumentType]
        except psycopg.Error as error:
            raise server_error(error, lost=not self.is_open) from error
        return cursor

    def close(self) -> None:
        """See Connection."""
        if self._raw is not None:
            self._raw.close()


def _refusal(error: psycopg.Error) -> ServerError:
    """Why no connection can be made. Such errors have no SQLSTATE, only what the server said."""
    if isinstance(error, psycopg.ProgrammingError):  # names parts of the address
        return ServerError(
            StorageError(
                "database.postgres_url is not an address of PostgreSQL.",
                cure="Write it like postgresql://user:password@host:5432/database.",
            )
        )
    said = str(error)
    for state, words in _REFUSALS.items():
        if any(word in said for word in words):
            return ServerError(_storage_error(*_MEANING[state]), state=state)
    reason = said.rpartition("failed: ")[2].partition("\n")[0].removeprefix("FATAL:").strip()
    return ServerError(_storage_error(*_away(reason)), lost=True)


def server_error(error: psycopg.Error, *, lost: bool) -> ServerError:
    """What a driver's error means to the user: a clear sentence, no address."""
    state = error.sqlstate or ""
    lost = lost or state.startswith(_AWAY)
    if not state and isinstance(error, psycopg.DataError):  # psycopg itself looks for it
        text = "A text holds the character 0, which the database cannot keep."
        return ServerError(RecordError(text, cure="Leave it out."))
    message, cure, retryable = _meaning(error, state, lost)
    return ServerError(_storage_error(message, cure, retryable), state=state, lost=lost)


def _storage_error(message: str, cure: str, retryable: bool) -> StorageError:
    found = StorageError(message, cure=cure)
    found.retryable = retryable  # pyright: ignore[reportAttributeAccessIssue]  # of this one
    return found


def _away(reason: str) -> tuple[str, str, bool]:
    return (
        f"The database server cannot be reached ({reason}).",
        "Check that PostgreSQL runs and database.postgres_url names it.",
        True,
    )


def _meaning(error: psycopg.Error, state: str, lost: bool) -> tuple[str, str, bool]:
    for begin, meaning in _MEANING.items():
        if state.startswith(begin):
            return meaning
    said = error.diag.message_primary or str(error).partition("\n")[0] or type(error).__name__
    return (
        _away(said)
        if lost
        else (f"The database failed: {said}.", "Look at the log of the server.", False)
    )


_REFUSALS = {
    "28": ("authentication failed", "no password supplied", "no pg_hba.conf entry", 'role "'),
    "3D000": ('FATAL:  database "',),
}
"""What a refusal says, by SQLSTATE; English, as libpq and most servers speak."""
_MEANING = {
    "28": (
        "The database server refuses this user or password.",
        "Check user and password in database.postgres_url.",
        False,
    ),
    "3D000": (
        "The database does not exist on the server.",
        "Create it (createdb), or correct database.postgres_url.",
        False,
    ),
    "25006": ("The database is read-only.", "Name the primary server.", False),
    "42501": (
        "The database user may not do this.",
        "Grant it the right to create tables in its schema.",
        False,
    ),
    "53100": (
        "The disk is full; nothing was half-written.",
        "Free some space and try again.",
        True,
    ),
    "57014": (
        "A statement took longer than database.command_timeout.",
        "Try again; raise the key if it happens often.",
        True,
    ),
    "40": ("The database was busy with the same rows.", "Try again in a moment.", True),
}
"""By the beginning of SQLSTATE."""
