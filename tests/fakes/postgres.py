"""PostgreSQL for tests: a schema of their own on the server of this machine."""

import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from deerflow.storage.postgres.database import Place
from deerflow.storage.postgres.schema import prepare

URL = "postgresql://postgres@127.0.0.1:5432/test"
NO_SERVER = "no PostgreSQL on 127.0.0.1:5432"


@cache
def has_postgres() -> bool:
    """Whether a server answers."""
    try:
        socket.create_connection(("127.0.0.1", 5432), timeout=2).close()
    except OSError:
        return False
    return True


def need_postgres() -> None:
    """Skip the test where no server answers."""
    if not has_postgres():
        pytest.skip(NO_SERVER)


@contextmanager
def own_schema(*, timeout: float = 30.0, name: str = "") -> Iterator[Place]:
    """A place with a new name, nothing in it yet; dropped afterwards."""
    name = name or f"deerflow_test_{secrets.token_hex(6)}"
    try:
        yield Place(URL, name, timeout=timeout)
    finally:
        with psycopg.connect(URL, autocommit=True) as connection:
            for found in (name, f"{name}_dbos"):  # the durable engine's, if there was one
                drop = SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(Identifier(found))
                connection.execute(drop)


@contextmanager
def served_schema() -> Iterator[dict[str, str]]:
    """Section `database` of a service with a new schema; the ledger's is dropped with it."""
    with own_schema() as place, own_schema(name=f"{place.schema}_dbos"):
        yield {
            "backend": "postgres",
            "postgres_url": place.url,
            "postgres_schema": place.schema,
        }


@contextmanager
def prepared_schema() -> Iterator[Place]:
    """A place with all tables."""
    with own_schema() as place:
        prepare(place)
        yield place


def emptied(place: Place) -> Place:
    """The place with no row in it; quicker than making the tables again."""
    with psycopg.connect(URL) as connection:
        connection.execute(SQL("SET search_path TO {}").format(Identifier(place.schema)))
        rows = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s"
            " AND tablename NOT IN ('alembic_version', 'thread_keys')",
            (place.schema,),
        ).fetchall()
        for (name,) in (*rows, ("thread_keys",)):
            connection.execute(SQL("DELETE FROM {}").format(Identifier(name)))
    return place


@pytest.fixture(scope="session")
def shared_schema() -> Iterator[Place]:
    """A place with all tables, for many tests one after the other (see `emptied`)."""
    need_postgres()
    with prepared_schema() as place:
        yield place


@pytest.fixture
def place(shared_schema: Place) -> Place:
    """An empty place with all tables."""
    return emptied(shared_schema)
