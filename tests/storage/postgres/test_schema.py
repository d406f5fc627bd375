"""A schema is made once, by whoever is first; what is not ours or newer is left alone."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from deerflow.config.schema import DatabaseConfig
from deerflow.errors import StorageError
from deerflow.storage.postgres.database import Place
from deerflow.storage.postgres.schema import _upgrade, prepare
from deerflow.storage.postgres.storage import PostgresStorage
from deerflow.storage.sql.open import open_storage
from deerflow.storage.sql.schema import REVISIONS
from fakes.postgres import URL, need_postgres, own_schema, prepared_schema


@pytest.fixture
def empty() -> Iterator[Place]:
    """A place with nothing in it."""
    need_postgres()
    with own_schema() as found:
        yield found


def config(place: Place, **more: object) -> DatabaseConfig:
    """The section that names a place."""
    return DatabaseConfig.model_validate(
        {
            "backend": "postgres",
            "postgres_url": place.url,
            "postgres_schema": place.schema,
            **more,
        }
    )


def run(place: Place, sql: str) -> None:
    """Run a statement in the place's schema."""
    with psycopg.connect(place.url, autocommit=True) as connection:
        connection.execute(SQL("CREATE SCHEMA IF NOT EXISTS {}").format(Identifier(place.schema)))
        connection.execute(SQL("SET search_path TO {}").format(Identifier(place.schema)))
        connection.execute(sql)  # type: ignore[call-overload]


async def test_many_that_begin_at_once_get_along(empty: Place, tmp_path: Path) -> None:
    storages = await asyncio.gather(*(open_storage(config(empty), tmp_path) for _ in range(6)))
    for number, storage in enumerate(storages):
        await storage.threads.ensure("ann", f"t{number}")
    rows = await storages[0].threads.list("ann")
    for storage in storages:
        await storage.close()

    assert len(rows) == 6
    assert storages[0].kind == "postgres"
    assert not (tmp_path / "data").exists()


async def test_text_is_in_the_order_of_its_bytes(empty: Place, tmp_path: Path) -> None:
    storage = await open_storage(config(empty), tmp_path)
    for name in ("b", "B", "a", "_", "ä", "Z"):
        await storage.documents.prefer("ann", name, 1)
    await storage.close()
    with psycopg.connect(empty.url) as connection:
        found = connection.execute(
            SQL("SELECT name FROM {}.preferences ORDER BY name").format(Identifier(empty.schema))
        ).fetchall()

    assert [name for (name,) in found] == ["B", "Z", "_", "a", "b", "ä"]


def test_a_newer_schema_is_refused(empty: Place) -> None:
    prepare(empty)
    run(empty, "UPDATE alembic_version SET version_num = '9999'")

    with pytest.raises(StorageError, match="newer than this program") as caught:
        prepare(empty)
    assert REVISIONS[-1] in str(caught.value)


async def test_an_older_schema_is_upgraded_in_place(empty: Place) -> None:
    run(empty, "SELECT 1")  # makes the schema
    _upgrade(empty, "0002")
    run(empty, "INSERT INTO thread_keys (id, thread_key, last_seq) VALUES (1, 'k', 0)")
    prepare(empty)

    assert described(empty) == described_new()
    storage = PostgresStorage(empty)
    event = await storage.events.append("k", "r1", "x", {})
    await storage.workers.register("w-1", "p", seconds=1)
    await storage.close()
    assert event.seq == 1


def described(place: Place) -> list[object]:
    """Columns and indexes of a schema; the order of text is chosen when tables are made."""
    with psycopg.connect(place.url) as connection:
        columns = connection.execute(
            "SELECT table_name, column_name, data_type, is_nullable, column_default"
            " FROM information_schema.columns WHERE table_schema = %s"
            " ORDER BY table_name, column_name",
            (place.schema,),
        ).fetchall()
        indexes = connection.execute(
            "SELECT tablename, indexname FROM pg_indexes WHERE schemaname = %s ORDER BY 1, 2",
            (place.schema,),
        ).fetchall()
    plain = [tuple(str(v).replace(place.schema, "") for v in row) for row in columns]
    return [plain, indexes]


def described_new() -> list[object]:
    """The same of a schema that was made at once."""
    with prepared_schema() as place:
        return described(place)


def test_tables_of_another_program_are_left_alone(empty: Place) -> None:
    run(empty, "CREATE TABLE runs (id integer)")

    with pytest.raises(StorageError, match="another program"):
        prepare(empty)


@pytest.mark.parametrize(
    ("url", "message", "cure"),
    [
        ("postgresql://postgres@127.0.0.1:1/test", "cannot be reached", "postgres_url"),
        (f"{URL}_that_is_not_there", "does not exist", "createdb"),
        ("postgresql://nobody_here@127.0.0.1:5432/test", "refuses", "user and password"),
        ("not an address", "not an address", "postgresql://"),
    ],
)
async def test_an_address_that_leads_nowhere_is_told_with_the_cure(
    url: str, message: str, cure: str, tmp_path: Path
) -> None:
    need_postgres()
    with pytest.raises(StorageError, match=message) as caught:
        await open_storage(config(Place(url)), tmp_path)
    assert cure in caught.value.cure
    assert "5432" not in caught.value.message


async def test_an_address_may_name_a_driver(empty: Place, tmp_path: Path) -> None:
    url = empty.url.replace("postgresql://", "postgresql+psycopg://")
    storage = await open_storage(config(Place(url, empty.schema)), tmp_path)
    await storage.threads.ensure("ann", "t1")
    await storage.close()


async def test_a_statement_that_takes_too_long_is_broken_off(empty: Place, tmp_path: Path) -> None:
    storage = await open_storage(config(empty, command_timeout=0.5), tmp_path)
    thread = await storage.threads.ensure("ann", "t1")
    with psycopg.connect(empty.url) as holder:
        holder.execute(SQL("SET search_path TO {}").format(Identifier(empty.schema)))
        holder.execute("SELECT 1 FROM thread_keys FOR UPDATE")
        with pytest.raises(StorageError, match="command_timeout"):
            await storage.events.append(thread.thread_key, "r", "x", {})
    await storage.events.append(thread.thread_key, "r", "x", {})
    await storage.close()
