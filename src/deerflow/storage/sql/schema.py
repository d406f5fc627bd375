"""Brings a database file to the current schema: made from `schema.sql`, or by Alembic."""

from __future__ import annotations

from pathlib import Path

from deerflow.errors import StorageError
from deerflow.storage.sql.driver import Connection, DatabaseError, connect, translated

REVISIONS = ("0001", "0002", "0003")
"""Alembic revisions in order, the last one is what this version reads and writes."""

VERSION_TABLE = (
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL,"
    " CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)


def prepare(path: Path) -> None:
    """Make the file ready. Quick when it is up to date: one query, and Alembic is not imported.

    Raises:
        StorageError: the file cannot be used, belongs to something else, or was written by a
            newer version.
    """
    found = _look(path) if path.exists() else None
    version = _make(path) if found is None else found
    if version and version not in REVISIONS:
        raise newer(version)
    if version != REVISIONS[-1]:
        from deerflow.storage.migrations.upgrade import (  # noqa: PLC0415  # Alembic costs 0.3 s
            upgrade,
        )

        upgrade(path)


def newer(version: str) -> StorageError:
    """The error of a database that this program does not know."""
    return StorageError(
        f"The database has schema version {version}, newer than this program"
        f" (it knows up to {REVISIONS[-1]}).",
        cure="Install the newer version again, or choose another DEER_FLOW_HOME.",
    )


def _look(path: Path) -> str | None:
    """Revision of a file that exists; the file may be another program's, so nothing is written."""
    connection = connect(path, read_only=True)
    try:
        return _version(connection)
    except DatabaseError as error:
        raise translated(error) from error
    finally:
        connection.close()


def _make(path: Path) -> str:
    connection = connect(path)
    try:
        return _create(connection)
    except DatabaseError as error:
        raise translated(error) from error
    finally:
        connection.close()


def _version(connection: Connection) -> str | None:
    """Revision of the file, "" before the first migration, None when it has no table at all."""
    names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master").fetchall()}
    if not names:
        return None
    if "alembic_version" not in names:
        raise StorageError(
            "The database file belongs to another program.", cure="Choose another DEER_FLOW_HOME."
        )
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(row[0]) if row else ""


def _create(connection: Connection) -> str:
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection)  # another process may have been quicker
        if version is None:
            version = REVISIONS[-1]
            schema = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")
            for statement in schema.split(";\n"):
                if statement.strip():
                    connection.execute(statement)
            connection.execute(VERSION_TABLE)
            connection.execute("INSERT INTO alembic_version VALUES (?)", (version,))
    except DatabaseError:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    return version
