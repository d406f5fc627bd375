"""Memories in a database of their own: many users, many processes; SQLite or PostgreSQL."""

from __future__ import annotations

import builtins
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from sqlalchemy import func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from deerflow.errors import StorageError
from deerflow.memory.deermem.database import Database
from deerflow.memory.deermem.document import from_json, to_json
from deerflow.memory.deermem.facts import sealed
from deerflow.memory.deermem.folders import safe_user_id
from deerflow.memory.deermem.ranking import ordered, relevance
from deerflow.memory.deermem.tables import fact_of, match_of, row_of
from deerflow.memory.deermem.words import clean, query_words
from deerflow.memory.protocol import MAX_CHANGES, Change, Fact, MemoryDocument, Mutate

ATTEMPTS = 4
"""Of a change that found the database locked for so long: SQLite lets nobody queue."""


class SqlMemoryStorage:
    """A `MemoryStorage` in tables: one row per fact, with an index of its words.

    Args:
        place: a file for SQLite (never the one of the harness, which has a single writer), or the
            address of a PostgreSQL database.
        schema: of the tables in PostgreSQL, made when it is missing; "" for the default.
        now: the clock, UTC seconds.

    Raises:
        StorageError: the driver of PostgreSQL is not installed.
    """

    def __init__(
        self, place: Path | str, *, schema: str = "", now: Callable[[], float] = time.time
    ) -> None:
        self._now = now
        self._database = Database(place, schema)
        self._tables = self._database.tables

    async def load(self, user_id: str) -> MemoryDocument:
        """See `MemoryStorage.load`."""
        if self._database.nothing():
            return MemoryDocument()
        async with self._database.open() as connection:
            return await self._document(connection, safe_user_id(user_id))

    async def update(self, user_id: str, mutate: Mutate) -> MemoryDocument:
        """See `MemoryStorage.update`."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._update(safe_user_id(user_id), mutate)
            except StorageError as error:
                if not error.retryable or attempt == ATTEMPTS:
                    raise
        raise AssertionError  # the last attempt returns or raises

    async def changes(self, user_id: str, *, limit: int = 50) -> builtins.list[Change]:
        """See `MemoryStorage.changes`."""
        if self._database.nothing():
            return []
        table = self._tables.changes
        query = (
            select(table.c.revision, table.c.at, table.c.what)
            .where(table.c.user_id == safe_user_id(user_id))
            .order_by(table.c.revision.desc())
            .limit(limit)
        )
        async with self._database.open() as connection:
            return [Change(*row) for row in await connection.execute(query)]

    async def undo(self, user_id: str) -> Change | None:
        """See `MemoryStorage.undo`."""
        if self._database.nothing():
            return None
        user, table = safe_user_id(user_id), self._tables.changes
        newest = (
            select(table).where(table.c.user_id == user).order_by(table.c.revision.desc()).limit(1)
        )
        async with self._database.open(write=True) as connection:
            await self._lock(connection, user)
            row = (await connection.execute(newest)).mappings().first()
            if row is None:
                await connection.rollback()
                return None
            present = await self._document(connection, user)
            former = from_json(json.loads(row["former"])).document
            restored = sealed(present, replace(former, taken=present.taken), self._now())
            await self._store(connection, user, present, restored)
            await connection.execute(
                table.delete().where(table.c.user_id == user, table.c.revision == row["revision"])
            )
            await connection.commit()
            return Change(row["revision"], row["at"], row["what"])

    async def search(
        self, user_id: str, query: str, *, limit: int = 15
    ) -> builtins.list[tuple[Fact, float]]:
        """See `MemoryStorage.search`."""
        wanted = query_words(query)
        if not wanted or self._database.nothing():
            return []
        user, facts = safe_user_id(user_id), self._tables.facts
        current = (facts.c.user_id == user) & (facts.c.superseded_by == "")
        hits = match_of(facts, self._tables.words, wanted, user, lite=self._database.lite)
        sizes = select(func.count(), func.avg(facts.c.length)).where(current)
        async with self._database.open() as connection:
            total, mean = (await connection.execute(sizes)).one()
            rows = (await connection.execute(hits.where(current))).mappings().all()
        found = [fact_of(row) for row in rows]
        scores = relevance(query, found, total=total, mean_words=float(mean or 1))
        best = ordered((fact for fact in found if fact.id in scores), scores)
        return [(fact, scores[fact.id]) for fact in best[:limit]]

    async def delete(self, user_id: str) -> bool:
        """See `MemoryStorage.delete`."""
        if self._database.nothing():
            return False
        user = safe_user_id(user_id)
        async with self._database.open(write=True) as connection:
            there = await self._lock(connection, user, make=False)
            present = await self._document(connection, user)
            await self._store(connection, user, present, MemoryDocument())
            for table in (self._tables.changes, self._tables.users):
                await connection.execute(table.delete().where(table.c.user_id == user))
            await connection.commit()
            return there

    async def close(self) -> None:
        """Close the connections."""
        await self._database.close()

    async def _update(self, user: str, mutate: Mutate) -> MemoryDocument:
        async with self._database.open(write=True) as connection:
            await self._lock(connection, user)
            former = await self._document(connection, user)
            made = mutate(former)
            if made is None:
                await connection.rollback()
                return former
            document = sealed(former, made[0], self._now())
            await self._store(connection, user, former, document)
            table = self._tables.changes
            await connection.execute(
                table.insert().values(
                    user_id=user,
                    revision=document.revision,
                    at=document.updated_at,
                    what=clean(made[1]),
                    former=json.dumps(to_json(former)),
                )
            )
            kept = (
                select(table.c.revision)
                .where(table.c.user_id == user)
                .order_by(table.c.revision.desc())
                .limit(MAX_CHANGES)
            )
            await connection.execute(
                table.delete().where(table.c.user_id == user, table.c.revision.not_in(kept))
            )
            await connection.commit()
            return document

    async def _lock(self, connection: AsyncConnection, user: str, *, make: bool = True) -> bool:
        """Keep other writers of the user out until the end of the transaction.

        SQLite's transaction keeps out all of them already. Returns whether there was a row.
        """
        table = self._tables.users
        if make:
            insert = sqlite.insert if self._database.lite else postgresql.insert
            row = {"user_id": user, "revision": 0, "updated_at": 0.0, "layers": "{}"}
            await connection.execute(insert(table).values(row).on_conflict_do_nothing())
        found = select(table.c.user_id).where(table.c.user_id == user).with_for_update()
        return (await connection.execute(found)).first() is not None

    async def _document(self, connection: AsyncConnection, user: str) -> MemoryDocument:
        users, facts = self._tables.users, self._tables.facts
        row = (
            (await connection.execute(select(users).where(users.c.user_id == user)))
            .mappings()
            .first()
        )
        if row is None or not row["revision"]:
            return MemoryDocument()
        layers = from_json({"facts": [], **json.loads(row["layers"])}).document
        rows = await connection.execute(
            select(facts).where(facts.c.user_id == user).order_by(facts.c.position)
        )
        return replace(
            layers,
            facts=tuple(fact_of(each) for each in rows.mappings()),
            revision=row["revision"],
            updated_at=row["updated_at"],
        )

    async def _store(
        self, connection: AsyncConnection, user: str, former: MemoryDocument, new: MemoryDocument
    ) -> None:
        """Write what differs."""
        users, facts = self._tables.users, self._tables.facts
        raw = to_json(new)
        layers = json.dumps({key: raw[key] for key in ("user", "history", "taken")})
        await connection.execute(
            users.update()
            .where(users.c.user_id == user)
            .values(revision=new.revision, updated_at=new.updated_at, layers=layers)
        )
        places = {fact.id: (number, fact) for number, fact in enumerate(new.facts)}
        if [f.id for f in former.facts] == [f.id for f in new.facts[: len(former.facts)]]:
            same = {fact.id for fact in former.facts if places[fact.id][1] == fact}
        else:
            same = set[str]()  # some went: the others move up
        changed = [fact.id for fact in former.facts if fact.id not in same]
        if changed:
            await self._remove(connection, user, None if not same else changed)
        rows = [row_of(user, fact, place) for place, fact in places.values() if fact.id not in same]
        if rows:
            await connection.execute(facts.insert(), rows)
            if self._database.lite:
                await self._index(connection, user, [row["id"] for row in rows])

    async def _remove(
        self, connection: AsyncConnection, user: str, ids: Sequence[str] | None
    ) -> None:
        """Remove facts, all of a user's when `ids` is None, with what the index holds of them."""
        facts, words = self._tables.facts, self._tables.words
        where = facts.c.user_id == user
        if ids is not None:
            where &= facts.c.id.in_(ids)
        if self._database.lite:
            numbers = select(facts.c.number).where(where)
            await connection.execute(words.delete().where(words.c.rowid.in_(numbers)))
        await connection.execute(facts.delete().where(where))

    async def _index(self, connection: AsyncConnection, user: str, ids: Sequence[str]) -> None:
        """Take new rows into SQLite's index; PostgreSQL's is one of the table."""
        facts, words = self._tables.facts, self._tables.words
        new = select(facts.c.number, facts.c.owner, facts.c.words).where(
            facts.c.user_id == user, facts.c.id.in_(ids)
        )
        await connection.execute(words.insert().from_select(["rowid", "owner", "words"], new))
