"""PostgreSQL as the stores' database: locks, lost connections, commits without an answer."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from deerflow.errors import StorageError
from deerflow.storage.postgres.driver import PostgresConnection
from deerflow.storage.sql.batch import Batch, ThreadRef
from deerflow.storage.sql.dialect import POSTGRES, Dialect
from deerflow.storage.sql.driver import Connection, DatabaseError, ServerError

CONNECT_SECONDS = 10
"""How long making a connection may take."""
IDLE_SECONDS = 4.0
"""How long a process may stand still inside a transaction; then its locks are taken away. Below a
worker's lease, so that one that sleeps cannot keep the others from their heartbeats."""
DEADLOCKS = 10
"""How often a group of writes is run again that the server broke off for others'."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between attempts to reach a server that is away."""
ALONE = 0x64656572
"""Key of the advisory lock of writes that belong to no thread ("deer")."""

_LOCK = (
    "SELECT k.thread_key, k.id, t.thread_id, k.last_seq, k.retired_at FROM thread_keys k"
    " LEFT JOIN threads t ON t.id = k.id WHERE k.thread_key = ANY(?)"
    " ORDER BY k.thread_key FOR UPDATE OF k"
)
_STATUS = "SELECT pg_xact_status(CAST(? AS xid8))"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the tables are.

    Attributes:
        url: address of the server, as libpq takes it.
        schema: of the tables, "" for the user's default.
        timeout: seconds that a statement may take, and that an absent server is waited for.
        recycle: seconds after which a reader's connection is renewed.
    """

    url: str
    schema: str = ""
    timeout: float = 30.0
    recycle: float = 300.0


class PostgresDatabase:
    """A schema on a PostgreSQL server, its tables up to date (see `prepare`).

    Isolation is READ COMMITTED. A transaction first locks the rows of its threads in
    `thread_keys`, so writes of a thread are alone among each other in all processes; one that
    holds writes of no thread takes an advisory lock first, so these are alone as well.
    """

    dialect: Dialect = POSTGRES
    growing_ids: bool = True

    def __init__(self, place: Place) -> None:
        self._place = place
        self._away_since: float | None = None
        self._transaction = ""

    def connect(self, *, read_only: bool = False) -> PostgresConnection:
        """See Database. The connection is made when it is first used.

        Args:
            read_only: and made again by itself when it is lost or old.
        """
        place = self._place
        settings = {
            "statement_timeout": f"{place.timeout * 1000:.0f}",
            "idle_in_transaction_session_timeout": f"{IDLE_SECONDS * 1000:.0f}",
        }
        if read_only:
            settings["default_transaction_read_only"] = "on"
        if place.schema:
            settings["search_path"] = quoted(place.schema)
        return PostgresConnection(
            place.url,
            {
                "connect_timeout": CONNECT_SECONDS,
                "application_name": "deerflow",
                "keepalives_idle": 30,
                "keepalives_interval": 10,
                "tcp_user_timeout": f"{place.timeout * 1000:.0f}",
                "options": " ".join(f"-c {k}={_escaped(v)}" for k, v in settings.items()),
            },
            self._back,
            place.recycle if read_only else None,
        )

    def begin(self, connection: Connection, *, alone: bool) -> None:
        """See Database. The transaction's name is for `landed`."""
        self._transaction = ""
        lock = f"pg_advisory_xact_lock({ALONE}, hashtext(current_schema())), " if alone else ""
        row = cast(PostgresConnection, connection).begin(
            f"SELECT {lock}CAST(pg_current_xact_id() AS text)"
        )
        self._transaction = str(row[-1])

    def lock(self, batch: Batch, keys: Sequence[str]) -> None:
        """See Database."""
        if keys:
            for key, id, thread_id, last_seq, retired in batch.connection.execute(
                _LOCK, (list(keys),)
            ).fetchall():
                if retired is None:
                    batch.refs[key] = ThreadRef(id, thread_id or key, last_seq)

    def landed(self, connection: Connection) -> bool:
        """See Database. The server is asked what became of it, when it is there again.

        Raises:
            ServerError: it does not come back in time; nobody knows.
        """
        held = cast(PostgresConnection, connection)
        if held.is_open or not self._transaction:
            return False
        until, pause = time.monotonic() + self._place.timeout, FIRST_PAUSE
        while time.monotonic() < until:
            try:
                held.reopen()
                row = held.execute(_STATUS, (self._transaction,)).fetchone()
                if row[0] != "in progress":
                    return row[0] == "committed"
            except DatabaseError as error:
                if not isinstance(error, ServerError) or not error.lost:
                    raise
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
        raise ServerError(
            StorageError(
                "The database server went away while it was writing; whether it has written is"
                " unknown.",
                cure="Look at the thread before you repeat it.",
            )
        )

    def again(self, error: Exception, tries: int) -> float | None:
        """See Database. A server that was away for the whole timeout is asked once, no more."""
        if not isinstance(error, ServerError):
            return None
        if error.lost:
            now = time.monotonic()
            since = self._away_since = self._away_since or now
            late = now - since > self._place.timeout
            return None if late else min(FIRST_PAUSE * 2 ** min(tries, 8), LONGEST_PAUSE)
        return random.uniform(0, FIRST_PAUSE) if error.whole and tries <= DEADLOCKS else None  # noqa: S311  # no secret

    def tidy(self, connection: Connection, *, last: bool) -> bool:
        """See Database. The server does it by itself (autovacuum)."""
        del connection, last
        return False

    def _back(self) -> None:
        self._away_since = None


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def _escaped(value: str) -> str:
    """A value of libpq's keyword `options`."""
    return value.replace("\\", "\\\\").replace(" ", "\\ ")
