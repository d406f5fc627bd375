"""Memories in a database: its file, its index, its failures."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from deerflow.errors import StorageError
from deerflow.memory.deermem import database
from deerflow.memory.deermem import sql as module
from deerflow.memory.deermem.sql import SqlMemoryStorage
from deerflow.memory.protocol import Fact, MemoryDocument
from fakes.memories import POSTGRES, adding, opened, skip_reason

TEA = Fact("tea", "Likes tea")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "memory.db"


@pytest.fixture
async def storage(file: Path) -> AsyncIterator[SqlMemoryStorage]:
    storage = SqlMemoryStorage(file)
    yield storage
    await storage.close()


def has(path: Path) -> bool:
    return path.exists()


def overwrite(file: Path, change: Callable[[bytes], bytes]) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(change(file.read_bytes() if file.exists() else b""))


async def test_reading_makes_no_file(storage: SqlMemoryStorage, file: Path) -> None:
    assert await storage.load("ann") == MemoryDocument()
    assert await storage.search("ann", "tea") == []
    assert await storage.changes("ann") == []
    assert await storage.undo("ann") is None
    assert await storage.delete("ann") is False
    assert not has(file.parent)
    await storage.update("ann", adding(TEA))
    assert has(file)


async def test_it_is_there_after_closing(storage: SqlMemoryStorage, file: Path) -> None:
    await storage.update("ann", adding(TEA))
    await storage.close()
    again = SqlMemoryStorage(file)
    assert (await again.load("ann")).facts == (TEA,)
    assert [fact for fact, _ in await again.search("ann", "tea")] == [TEA]
    await again.close()


async def test_rows_of_words_come_and_go_with_their_facts(
    storage: SqlMemoryStorage, file: Path
) -> None:
    facts = tuple(Fact(f"f{n}", f"Fact number {n}") for n in range(5))
    await storage.update("ann", lambda d: (d.with_(facts=facts), "five"))
    await storage.update("bob", adding(TEA))
    await storage.update("ann", lambda d: (d.with_(facts=d.facts[2:]), "three"))
    await storage.update(
        "ann", lambda d: (d.with_(facts=(d.facts[0].with_(content="Anew"), *d.facts[1:])), "one")
    )
    with sqlite3.connect(file) as connection:
        indexed = {row[0] for row in connection.execute("SELECT words FROM memory_words")}
        left = connection.execute(
            "SELECT count(*) FROM memory_words w LEFT JOIN memory_facts f ON f.number = w.rowid"
            " WHERE f.number IS NULL"
        ).fetchone()
    connection.close()
    assert indexed == {"anew", "fact number 3", "fact number 4", "like tea"}
    assert left == (0,)


async def test_only_what_changed_is_written(storage: SqlMemoryStorage, file: Path) -> None:
    facts = tuple(Fact(f"f{n}", f"Fact number {n}") for n in range(5))
    await storage.update("ann", lambda d: (d.with_(facts=facts), "five"))

    def numbers() -> dict[str, int]:
        connection = sqlite3.connect(file)
        found = dict(connection.execute("SELECT id, number FROM memory_facts").fetchall())
        connection.close()
        return found

    before = numbers()
    changed = (facts[0], facts[1].with_(confidence=0.5), *facts[2:], Fact("g", "New"))
    await storage.update("ann", lambda d: (d.with_(facts=changed), "two"))
    after = numbers()
    assert {name for name in before if after[name] == before[name]} == {"f0", "f2", "f3", "f4"}
    assert [fact.id for fact in (await storage.load("ann")).facts] == [f.id for f in changed]


async def test_a_file_that_is_no_database(storage: SqlMemoryStorage, file: Path) -> None:
    overwrite(file, lambda _: b"hello " * 1000)
    for attempt in (storage.load("ann"), storage.update("ann", adding(TEA))):
        with pytest.raises(StorageError) as caught:
            await attempt
        assert "memory.db is damaged and was left as it is" in caught.value.message
        assert caught.value.cure
    overwrite(file, lambda data: data if data == b"hello " * 1000 else pytest.fail("changed"))


async def test_a_file_that_is_cut(storage: SqlMemoryStorage, file: Path) -> None:
    for number in range(50):
        await storage.update("ann", adding(Fact(f"f{number}", f"{number} " + "word " * 300)))
    await storage.close()
    overwrite(file, lambda data: data[: len(data) // 2])
    broken = SqlMemoryStorage(file)
    with pytest.raises(StorageError) as caught:
        await broken.load("ann")
    assert str(file) not in str(caught.value)
    await broken.close()


async def test_a_lock_of_another_program_is_waited_for_and_then_told(
    storage: SqlMemoryStorage, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    monkeypatch.setattr(module, "ATTEMPTS", 2)
    await storage.update("ann", adding(TEA))
    impatient = SqlMemoryStorage(file)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageError) as caught:
        await impatient.update("ann", adding(Fact("f", "Likes coffee")))
    assert caught.value.retryable
    assert (await impatient.load("ann")).facts == (TEA,)  # readers need not wait
    other.execute("ROLLBACK")
    other.close()
    await impatient.update("ann", adding(Fact("f", "Likes coffee")))
    assert len((await impatient.load("ann")).facts) == 2
    await impatient.close()


async def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")
    storage = SqlMemoryStorage(tmp_path / "data" / "memory.db")
    with pytest.raises(StorageError) as caught:
        await storage.update("ann", adding(TEA))
    assert "nothing was changed" in caught.value.message
    await storage.close()


async def test_a_server_that_is_not_there() -> None:
    storage = SqlMemoryStorage("postgresql://nobody:secret@127.0.0.1:1/none")
    with pytest.raises(StorageError) as caught:
        await storage.load("ann")
    assert "secret" not in str(caught.value)
    assert "server" in caught.value.cure
    await storage.close()


async def test_two_processes_may_make_the_tables_at_once(tmp_path: Path) -> None:
    if reason := skip_reason("postgres"):
        pytest.skip(reason)
    async with opened("postgres", tmp_path):
        schema = (tmp_path / "schema").read_text()
        both = [SqlMemoryStorage(POSTGRES, schema=schema) for _ in range(2)]
        for number, each in enumerate(both):
            await each.update("ann", adding(Fact(f"f{number}", f"Fact {number}")))
        assert len((await both[0].load("ann")).facts) == 2
        for each in both:
            await each.close()
