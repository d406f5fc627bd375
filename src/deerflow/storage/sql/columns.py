"""What the tables are written with: the metadata, and columns that many tables have."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Integer, MetaData

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    }
)

ID = BigInteger().with_variant(Integer, "sqlite")


def id_column() -> Column[int]:
    """A number that the database gives."""
    return Column("id", ID, primary_key=True)


def key_column(name: str, type: Any) -> Column[Any]:
    """Part of a primary key that the program gives."""
    return Column(name, type, primary_key=True, autoincrement=False)


def thread_column() -> Column[int]:
    """A row of thread_keys; no constraint, because deletion removes rows explicitly."""
    return Column("thread", ID, nullable=False)
