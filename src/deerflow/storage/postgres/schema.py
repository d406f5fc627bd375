"""Brings a schema on a server up to date: made from the tables, or by Alembic."""

from __future__ import annotations

from typing import Any

import psycopg

from deerflow.errors import StorageError
from deerflow.storage.postgres.database import Place, PostgresDatabase, quoted
from deerflow.storage.postgres.driver import PostgresConnection, server_error
from deerflow.storage.sql.driver import DatabaseError, translated
from deerflow.storage.sql.schema import REVISIONS, VERSION_TABLE, newer

SETUP = 0x73657475
"""Key of the advisory lock of whoever makes the tables ("setu")."""
_EXISTS = "SELECT to_regclass('alembic_version') IS NOT NULL, to_regclass('runs') IS NOT NULL"


def prepare(place: Place) -> None:
    """Make the schema ready; several processes may begin at once.

    Raises:
        StorageError: the server cannot be reached, the user may not make tables, or a newer
            version wrote them.
    """
    connection = PostgresDatabase(place).connect()
    try:
        connection.reopen()
        version = _version(connection, place) or _make(connection, place)
    except DatabaseError as error:
        raise translated(error) from error
    finally:
        connection.close()
    if version not in REVISIONS:
        raise newer(version)
    if version != REVISIONS[-1]:
        _upgrade(place)


def _upgrade(place: Place, revision: str = "head") -> None:
    """Bring older tables to a revision, one process at a time."""
    from sqlalchemy import create_engine, event  # noqa: PLC0415  # SQLAlchemy costs 0.3 s
    from sqlalchemy.exc import DBAPIError  # noqa: PLC0415
    from sqlalchemy.pool import NullPool  # noqa: PLC0415

    from deerflow.storage.migrations.upgrade import run  # noqa: PLC0415  # and Alembic 0.3 more

    def raw() -> Any:
        connection = PostgresDatabase(place).connect().reopen()
        connection.autocommit = False
        return connection

    def lock(connection: Any) -> None:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({SETUP})")

    engine = create_engine("postgresql+psycopg://", creator=raw, poolclass=NullPool)
    event.listen(engine, "begin", lock)
    try:
        run(engine, revision)
    except DBAPIError as error:
        if isinstance(error.orig, psycopg.Error):
            raise server_error(error.orig, lost=False).meaning from error
        raise


def _version(connection: PostgresConnection, place: Place) -> str:
    """Revision of the tables, "" when there are none."""
    if place.schema:
        found = connection.execute(
            "SELECT 1 FROM pg_namespace WHERE nspname = ?", (place.schema,)
        ).fetchone()
        if found is None:
            return ""
    versioned, others = connection.execute(_EXISTS).fetchone()
    if not versioned:
        if others:
            raise StorageError(
                "The database has tables of another program.",
                cure="Name a schema of its own in database.postgres_schema.",
            )
        return ""
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(row[0]) if row else ""


def _make(connection: PostgresConnection, place: Place) -> str:
    from deerflow.storage.sql.render import (  # noqa: PLC0415  # SQLAlchemy costs 0.3 s
        render_postgres,
    )

    schema = render_postgres()  # before the transaction: nobody waits for a slow start
    connection.begin(f"SELECT pg_advisory_xact_lock({SETUP})")
    try:
        version = _version(connection, place)  # another process may have been quicker
        if not version:
            version = _create(connection, place, schema)
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    return version


def _create(connection: PostgresConnection, place: Place, schema: str) -> str:
    if place.schema:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(place.schema)}")
    for statement in schema.split(";\n"):
        if statement.strip():
            connection.execute(statement)
    connection.execute(VERSION_TABLE)
    connection.execute("INSERT INTO alembic_version VALUES (?)", (REVISIONS[-1],))
    return REVISIONS[-1]
