"""Where the ledger of hand-overs is kept: SQLAlchemy's engine for it, on SQLite or PostgreSQL."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlalchemy as sa

IDLE_SECONDS = 4.0
"""How long a process may stand still inside a transaction on PostgreSQL and keep its locks."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the ledger is kept, and how much may run.

    Attributes:
        database: address for SQLAlchemy; of SQLite, a file of its own.
        schema: of the tables on PostgreSQL.
        pool: connections to PostgreSQL.
        worker_runs: hand-overs from the queue at once in a worker.
        user_runs: and of one user, in all workers.
    """

    database: str
    schema: str = "dbos"
    pool: int = 5
    worker_runs: int = 100
    user_runs: int = 50

    @property
    def sqlite(self) -> Path | None:
        """The file, None on a server."""
        found = self.database.removeprefix("sqlite:///")
        return None if found == self.database else Path(found)


def make_engine(place: Place) -> sa.Engine:
    """The engine that DBOS works on.

    Its own way to open SQLite is not used: it would take the standard library's, which may be too
    old, and would leave the file without a write-ahead log.
    """
    import sqlalchemy as sa  # noqa: PLC0415  # only for the ledger
    from sqlalchemy import event  # noqa: PLC0415

    file = place.sqlite
    if file is None:
        url = sa.make_url(place.database).set(drivername="postgresql+psycopg")
        idle = f"-c idle_in_transaction_session_timeout={IDLE_SECONDS * 1000:.0f}"
        return sa.create_engine(
            url,
            pool_size=place.pool,
            max_overflow=0,
            pool_timeout=30,
            pool_pre_ping=True,
            connect_args={"options": idle, "application_name": "deerflow"},
        )
    from deerflow.storage.sql.driver import BUSY_SECONDS, CACHE_KIB, DRIVER  # noqa: PLC0415

    file.parent.mkdir(parents=True, exist_ok=True)
    engine = sa.create_engine(
        f"sqlite:///{file.absolute()}", module=DRIVER, connect_args={"timeout": BUSY_SECONDS}
    )

    def prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = "IMMEDIATE"
        for pragma in (
            f"busy_timeout={int(BUSY_SECONDS * 1000)}",
            f"cache_size=-{CACHE_KIB}",
            "foreign_keys=ON",
            "journal_mode=WAL",
            "synchronous=NORMAL",
        ):
            connection.execute(f"PRAGMA {pragma}")

    event.listen(engine, "connect", prepare)
    return engine
