"""The tables of memories: users, facts with their words, former documents."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    MetaData,
    Select,
    Table,
    Text,
    UniqueConstraint,
    func,
    inspect,
    literal,
    literal_column,
    select,
    text,
)

from deerflow.memory.deermem.words import is_prefix, words
from deerflow.memory.protocol import Fact, Source

_NUMBER = BigInteger().with_variant(Integer(), "sqlite")  # only an INTEGER counts up there

_SEARCH = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS memory_words USING fts5(owner, words,"
    ' tokenize="unicode61 remove_diacritics 0")'
)
"""SQLite's index. `owner` is a word of each row, so that a search reads one user's rows alone."""


class Tables:
    """The tables in a schema (None for the default one)."""

    def __init__(self, schema: str | None) -> None:
        self.data = MetaData(schema=schema)
        self.users = Table(
            "memory_users",
            self.data,
            Column("user_id", Text, primary_key=True),
            Column("revision", BigInteger, nullable=False),
            Column("updated_at", Double, nullable=False),
            Column("layers", Text, nullable=False),  # JSON: user, history, taken
        )
        self.facts = Table(
            "memory_facts",
            self.data,
            Column("number", _NUMBER, primary_key=True),
            Column("user_id", Text, nullable=False),
            Column("position", Integer, nullable=False),
            Column("id", Text, nullable=False),
            Column("content", Text, nullable=False),
            Column("category", Text, nullable=False),
            Column("confidence", Double, nullable=False),
            Column("source_thread", Text, nullable=False),
            Column("source_message", Text, nullable=False),
            Column("created_at", Double, nullable=False),
            Column("last_confirmed", Double, nullable=False),
            Column("valid_days", Double),
            Column("supersedes", Text, nullable=False),
            Column("superseded_by", Text, nullable=False),
            Column("owner", Text, nullable=False),
            Column("words", Text, nullable=False),
            Column("length", Integer, nullable=False),
            UniqueConstraint("user_id", "id"),
        )
        self.changes = Table(
            "memory_changes",
            self.data,
            Column("user_id", Text, primary_key=True),
            Column("revision", _NUMBER, primary_key=True, autoincrement=False),
            Column("at", Double, nullable=False),
            Column("what", Text, nullable=False),
            Column("former", Text, nullable=False),  # the document before it, as JSON
        )
        Index(
            "memory_facts_words",
            func.to_tsvector(literal_column("'simple'"), self.facts.c.words),
            postgresql_using="gin",
        ).ddl_if("postgresql")
        self.words = Table(
            "memory_words",
            MetaData(),  # SQLite's alone, made by _SEARCH
            Column("rowid", Integer, primary_key=True),
            Column("owner", Text),
            Column("words", Text),
        )

    def exist(self, connection: Connection) -> bool:
        """Whether they have been made; all of them are, in one transaction."""
        return inspect(connection).has_table(self.users.name, schema=self.data.schema)

    def make(self, connection: Connection, schema: str) -> None:
        """Make what is missing."""
        if connection.dialect.name == "sqlite":
            connection.execute(text(_SEARCH))
        elif schema:
            quoted = connection.dialect.identifier_preparer.quote_schema(schema)
            connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {quoted}"))
        self.data.create_all(connection)


def row_of(user: str, fact: Fact, position: int) -> dict[str, Any]:
    """A fact as a row."""
    found = words(fact.content)
    return {
        "user_id": user,
        "position": position,
        "id": fact.id,
        "content": fact.content,
        "category": fact.category,
        "confidence": fact.confidence,
        "source_thread": fact.source.thread,
        "source_message": fact.source.message,
        "created_at": fact.created_at,
        "last_confirmed": fact.last_confirmed,
        "valid_days": fact.valid_days,
        "supersedes": fact.supersedes,
        "superseded_by": fact.superseded_by,
        "owner": _owner(user),
        "words": " ".join(found),
        "length": len(found),
    }


def fact_of(row: Mapping[Any, Any]) -> Fact:
    """A row as a fact."""
    return Fact(
        id=row["id"],
        content=row["content"],
        category=row["category"],
        confidence=row["confidence"],
        source=Source(row["source_thread"], row["source_message"]),
        created_at=row["created_at"],
        last_confirmed=row["last_confirmed"],
        valid_days=row["valid_days"],
        supersedes=row["supersedes"],
        superseded_by=row["superseded_by"],
    )


def match_of(
    facts: Table, index: Table, wanted: Sequence[str], user: str, *, lite: bool
) -> Select[Any]:
    """Rows that share a word with a query, by the index: FTS5, or `simple` text search."""
    if not lite:
        terms = " | ".join(f"'{word}'{':*' if is_prefix(word) else ''}" for word in wanted)
        vector = func.to_tsvector(literal_column("'simple'"), facts.c.words)
        return select(facts).where(
            vector.op("@@")(func.to_tsquery(literal_column("'simple'"), terms))
        )
    terms = " OR ".join(f'"{word}"{" *" if is_prefix(word) else ""}' for word in wanted)
    match = literal_column("memory_words").op("MATCH")(
        literal(f"owner : {_owner(user)} AND words : ({terms})")
    )
    return select(facts).join(index, index.c.rowid == facts.c.number).where(match)


def _owner(user: str) -> str:
    """One word that stands for a user."""
    return f"u{hashlib.sha256(user.encode()).hexdigest()[:24]}"
