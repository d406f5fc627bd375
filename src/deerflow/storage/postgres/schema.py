"""Brings a schema on a server up to date: made from the tables, or by Alembic."""

from __future__ import annotations

from deerflow.errors import StorageError
from deerflow.storage.postgres.database import Place, PostgresDatabase, quoted
from deerflow.storage.postgres.driver import PostgresConnection
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
        raise StorageError(
            f"The database has schema version {version}, which no release has written.",
            cure="Name another schema in database.postgres_schema.",
        )


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
    connection.begin(f"SELECT pg_advisory_xact_lock({SETUP})")
    try:
        version = _version(connection, place)  # another process may have been quicker
        if not version:
            version = _create(connection, place)
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    return version


def _create(connection: PostgresConnection, place: Place) -> str:
    from deerflow.storage.sql.render import (  # noqa: PLC0415  # SQLAlchemy costs 0.3 s
        render_postgres,
    )

    if place.schema:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(place.schema)}")
    for statement in render_postgres().split(";\n"):
        if statement.strip():
            connection.execute(statement)
    connection.execute(VERSION_TABLE)
    connection.execute("INSERT INTO alembic_version VALUES (?)", (REVISIONS[-1],))
    return REVISIONS[-1]
