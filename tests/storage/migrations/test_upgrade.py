"""Alembic, the tables and schema.sql say the same; old files are upgraded, newer ones refused."""

from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from deerflow.errors import StorageError
from deerflow.storage.migrations import upgrade as upgrading
from deerflow.storage.sql import schema
from deerflow.storage.sql.driver import DRIVER, connect
from deerflow.storage.sql.tables import metadata, render_schema


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
