"""The whole schema as SQL, from the tables."""

from __future__ import annotations

from sqlalchemy import MetaData, Text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import CreateIndex, CreateTable

from deerflow.storage.sql import serving_tables, tables
from deerflow.storage.sql.columns import metadata

ALL = (tables, serving_tables)
"""Modules whose tables are in `metadata`, once they are loaded."""


def render_schema(dialect: Dialect | None = None) -> str:
    """SQL that creates every table; on SQLite the text of `schema.sql`."""
    return _rendered(metadata, dialect or sqlite.dialect())


def _rendered(found: MetaData, dialect: Dialect) -> str:
    statements: list[str] = []
    for table in found.sorted_tables:
        statements.append(str(CreateTable(table).compile(dialect=dialect)).strip())
        statements.extend(
            str(CreateIndex(index).compile(dialect=dialect)).strip()
            for index in sorted(table.indexes, key=lambda index: index.name or "")
        )
    lines = [line.rstrip() for line in ";\n\n".join(statements).splitlines()]
    return "\n".join(lines).replace("\t", "  ") + ";\n"


def render_postgres() -> str:
    """SQL that creates every table on PostgreSQL, text in the order of its bytes as on SQLite."""
    ordered = MetaData()
    for table in metadata.sorted_tables:
        for column in table.to_metadata(ordered).columns:
            if isinstance(column.type, Text):
                column.type = Text(collation="C")
    return _rendered(ordered, postgresql.dialect())
