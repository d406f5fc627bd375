"""Alembic, the tables and schema.sql say the same; old files are upgraded, newer ones refused."""

import asyncio
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from deerflow.config.schema import DatabaseConfig
from deerflow.errors import StorageError
from deerflow.storage.migrations import upgrade as upgrading
from deerflow.storage.protocol import ApprovalRow, BatchRow, QueuedExchange
from deerflow.storage.sql import schema
from deerflow.storage.sql.columns import metadata
from deerflow.storage.sql.driver import DRIVER, connect
from deerflow.storage.sql.open import open_storage
from deerflow.storage.sql.render import render_schema
from deerflow.storage.sql.storage import SqliteStorage


def described(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Columns and keys of every table and index."""
    connection = connect(path)
    names = connection.execute(
        "SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
    )
    found = {
        name: connection.execute(
            f"PRAGMA {'table_info' if kind == 'table' else 'index_info'}({name})"
        ).fetchall()
        for kind, name in names.fetchall()
    }
    connection.close()
    return found


def test_the_shipped_sql_is_what_the_tables_render() -> None:
    shipped = Path(schema.__file__).with_name("schema.sql").read_text(encoding="utf-8")

    assert shipped == render_schema(), "write render_schema() to storage/sql/schema.sql"


def test_a_new_file_is_what_alembic_would_make(tmp_path: Path) -> None:
    schema.prepare(tmp_path / "new.db")
    upgrading.upgrade(tmp_path / "migrated.db")

    assert described(tmp_path / "new.db") == described(tmp_path / "migrated.db")


def test_the_migrations_lead_to_the_tables(tmp_path: Path) -> None:
    path = tmp_path / "migrated.db"
    upgrading.upgrade(path)
    engine = create_engine(
        "sqlite://", module=DRIVER, creator=lambda: connect(path), poolclass=NullPool
    )
    with engine.connect() as connection:
        difference = compare_metadata(MigrationContext.configure(connection), metadata)
    engine.dispose()

    assert difference == []


def test_the_known_revisions_are_those_of_alembic() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(upgrading.__file__).parent))
    scripts = ScriptDirectory.from_config(config)

    walked = [script.revision for script in scripts.walk_revisions()]

    assert tuple(reversed(walked)) == schema.REVISIONS


def test_an_old_file_is_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    connection = connect(path)
    connection.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
    connection.close()

    schema.prepare(path)

    assert "checkpoints" in described(path)


def first_version(path: Path) -> None:
    """A file as the first schema left it, with a thread and an event."""
    upgrading.upgrade(path, "0001")
    connection = connect(path)
    connection.execute("INSERT INTO thread_keys VALUES (1, 'key', 1, NULL)")
    connection.execute("INSERT INTO threads VALUES (1, 'ann', 't1', 'Old', 'idle', 1.0, 2.0, '{}')")
    connection.execute("INSERT INTO run_events VALUES (1, 1, 'r1', 'notice', 3.0, ?)", (b"{}",))
    connection.close()


async def test_a_file_of_the_first_schema_is_upgraded_and_works(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    first_version(path)
    assert "approvals" not in described(path)

    schema.prepare(path)
    storage = SqliteStorage(path)
    await storage.batches.create(BatchRow("b1", "ann", "key", "r1", 1), ["x"])
    await storage.batches.settle("b1", 0, "done", "y")
    await storage.approvals.request(
        ApprovalRow("a1", "ann", "t1", "key", "r1", "", "m1", 0, "bash", {})
    )
    await storage.memory_queue.enqueue(
        QueuedExchange("e1", "ann", "t1", "key", {}, 1.0), debounce=1.0, ceiling=1.0
    )
    await storage.spending.add("ann", "2026-01-01", 3, {})
    thread = await storage.threads.get("ann", "t1")
    events = await storage.events.read("key")
    counts = await storage.batches.counts("b1")
    rows = await storage.approvals.list("ann")
    claimed = await storage.memory_queue.claim(now=9.0)
    deleted = await storage.threads.delete("ann", "t1")
    await storage.close()

    upgrading.upgrade(tmp_path / "new.db")
    assert described(path) == described(tmp_path / "new.db")
    assert thread is not None
    assert (thread.title, thread.last_seq, len(events)) == ("Old", 1, 1)
    assert counts == {"done": 1}
    assert [row.approval_id for row in rows] == ["a1"]
    assert [entry.entry_id for entry in claimed] == ["e1"]
    assert deleted == "key"


async def test_many_that_open_an_old_file_at_once_get_along(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    first_version(tmp_path / "data" / "deerflow.db")

    storages = await asyncio.gather(*(open_storage(DatabaseConfig(), tmp_path) for _ in range(6)))

    for storage in storages:
        assert await storage.approvals.list("ann") == []
        await storage.close()


def test_a_newer_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "newer.db"
    schema.prepare(path)
    connection = connect(path)
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()

    with pytest.raises(StorageError, match="schema version 9999, newer"):
        schema.prepare(path)


def test_a_file_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    connection = DRIVER.connect(path)
    connection.execute("CREATE TABLE recipes (id INTEGER)")
    connection.close()
    before = path.read_bytes()

    with pytest.raises(StorageError, match="belongs to another program"):
        schema.prepare(path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.db"
    path.write_text("this is not a database " * 500)

    with pytest.raises(StorageError, match="not an SQLite database"):
        schema.prepare(path)
