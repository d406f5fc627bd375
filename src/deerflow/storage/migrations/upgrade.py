"""Runs Alembic on a database file, from code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from deerflow.errors import StorageError
from deerflow.storage.sql.driver import DRIVER, connect, translated


def upgrade(path: Path, revision: str = "head") -> None:
    """Bring an SQLite file to a revision, in one transaction.

    Raises:
        StorageError: it failed; the file is as it was.
    """
    engine = create_engine(
        "sqlite://", module=DRIVER, creator=lambda: connect(path), poolclass=NullPool
    )
    event.listen(engine, "begin", _begin)
    try:
        run(engine, revision)
    except DBAPIError as error:
        raise translated(error.orig or error) from error  # pyright: ignore[reportArgumentType]


def run(engine: Engine, revision: str = "head") -> None:
    """Bring the engine's database to a revision, in one transaction; the engine is disposed.

    Raises:
        DBAPIError: it failed; the database is as it was.
        StorageError: the revision is unknown.
    """
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
    except CommandError as error:
        raise StorageError(f"The database could not be upgraded: {error}.") from error
    finally:
        engine.dispose()


def _begin(connection: Any) -> None:
    """The connection is in autocommit mode, so the transaction is begun by hand."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")
