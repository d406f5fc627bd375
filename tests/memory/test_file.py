"""Memories in files: damage, edits by hand, kept copies, disks that fail."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from deerflow.config.agents import MemoryBackendConfig
from deerflow.errors import StorageError
from deerflow.memory.deermem import file as module
from deerflow.memory.deermem.deermem import DeerMem
from deerflow.memory.deermem.file import FileMemoryStorage
from deerflow.memory.protocol import MAX_CHANGES, Fact, MemoryDocument
from fakes.memories import adding

TEA = Fact("tea", "Likes tea")


class Place:
    """A user's files."""

    def __init__(self, root: Path) -> None:
        self.storage = FileMemoryStorage(root / "memory")
        self.folder = root / "memory" / "users" / "ann"
        self.file = self.folder / "memory.json"
        self.revisions = self.folder / "revisions"

    async def add(self, name: str) -> MemoryDocument:
        return await self.storage.update("ann", adding(Fact(name, f"Fact {name}"), f"added {name}"))

    async def names(self) -> list[str]:
        return [fact.id for fact in (await self.storage.load("ann")).facts]

    def raw(self) -> dict[str, Any]:
        return json.loads(self.file.read_bytes())

    def put(self, raw: Any) -> bytes:
        self.folder.mkdir(parents=True, exist_ok=True)
        data = raw if isinstance(raw, bytes) else json.dumps(raw).encode()
        self.file.write_bytes(data)
        return data


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    place = Place(tmp_path)
    yield place
    await place.storage.close()


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def with_fact(data: bytes, **changes: Any) -> bytes:
    raw = json.loads(data)
    raw["facts"][0].update(changes)
    return json.dumps(raw).encode()


DAMAGES = {
    "cut in half": (cut, "no JSON"),
    "empty": (lambda _: b"", "no JSON"),
    "other text": (lambda _: b"hello", "no JSON"),
    "no text": (lambda _: b"\x00\xff\xfe", "no JSON"),
    "a list": (lambda _: b"[]", "It holds no memory"),
    "a fact of 1 MB": (lambda d: with_fact(d, content="x" * 1_048_576), "1,048,576 characters"),
    "NaN": (lambda d: with_fact(d, confidence=float("nan")), "confidence nan"),
    "a confidence of 7": (lambda d: with_fact(d, confidence=7), "confidence 7"),
    "no content": (lambda d: with_fact(d, content=None), "no content"),
    "deep": (lambda _: b"[" * 100_000, "no JSON"),
}


@pytest.mark.parametrize("how", DAMAGES)
async def test_a_damaged_file_is_named_and_left_as_it_is(place: Place, how: str) -> None:
    await place.add("one")
    await place.add("two")
    damage, reason = DAMAGES[how]
    bad = place.put(damage(place.file.read_bytes()))

    for attempt in (place.storage.load("ann"), place.add("three"), place.storage.changes("ann")):
        with pytest.raises(StorageError) as caught:
            await attempt
        assert "memory/users/ann/memory.json" in caught.value.message
        assert reason in caught.value.message
        assert len(caught.value.message) < 400
        assert str(place.folder) not in str(caught.value)
        assert "deerflow memory undo" in caught.value.cure
    assert place.file.read_bytes() == bad

    manager = DeerMem(place.storage, None, MemoryBackendConfig())
    assert await manager.context("ann", "tea") == ""

    undone = await place.storage.undo("ann")
    assert undone is not None
    (aside,) = place.folder.glob("memory.json.damaged-*")
    assert aside.name in undone.what
    assert aside.read_bytes() == bad
    assert await place.names() == ["one", "two"]  # nothing was lost
    assert [change.what for change in await place.storage.changes("ann")] == [
        "added two",
        "added one",
    ]
    await place.add("three")
    assert await place.names() == ["one", "two", "three"]


async def test_the_newest_copy_may_be_damaged_as_well(place: Place) -> None:
    for name in ("one", "two", "three"):
        await place.add(name)
    place.put(b"{")
    newest = max(place.revisions.iterdir())
    newest.write_bytes(b"")
    assert await place.storage.undo("ann") is not None
    assert await place.names() == ["one", "two"]


async def test_without_a_copy_the_cure_is_another(place: Place) -> None:
    place.put(b"{")
    for attempt in (place.storage.load("ann"), place.storage.undo("ann")):
        with pytest.raises(StorageError) as caught:
            await attempt
        assert "deerflow memory import" in caught.value.cure
    assert place.file.read_bytes() == b"{"
    assert await place.storage.delete("ann") is True


async def test_a_2_x_file_is_read_where_it_lies(place: Place) -> None:
    old = {
        "version": "1.0",
        "user": {"workContext": {"summary": "Builds bridges.", "updatedAt": ""}},
        "facts": [{"id": "fact_1", "content": "Has a dog", "confidence": 0.9, "further": True}],
    }
    data = place.put(old)
    assert await place.names() == ["fact_1"]
    assert await place.storage.changes("ann") == []
    assert await place.storage.undo("ann") is None
    assert place.file.read_bytes() == data
    await place.add("one")
    assert [change.what for change in await place.storage.changes("ann")] == ["added one"]
    kept = min(place.revisions.iterdir())
    assert kept.read_bytes() == data  # to the last byte, foreign fields included
    await place.storage.undo("ann")
    assert await place.names() == ["fact_1"]
    assert await place.storage.undo("ann") is None


async def test_an_edit_by_hand_is_a_change(place: Place) -> None:
    await place.add("one")
    raw = place.raw()
    raw["facts"].append({"id": "mine", "content": "By hand"})
    place.put(raw)
    assert await place.names() == ["one", "mine"]
    await place.add("two")
    lines = [change.what for change in await place.storage.changes("ann")]
    assert lines == ["added two", "edited by hand", "added one"]
    await place.storage.undo("ann")
    assert await place.names() == ["one", "mine"]
    await place.storage.undo("ann")
    assert await place.names() == ["one"]


async def test_an_edit_by_hand_can_be_undone_at_once(place: Place) -> None:
    await place.add("one")
    place.put({"facts": []})
    undone = await place.storage.undo("ann")
    assert undone is not None
    assert undone.what == "edited by hand"
    assert await place.names() == ["one"]


async def test_a_removed_file_is_an_empty_memory_until_undo(place: Place) -> None:
    await place.add("one")
    place.file.unlink()
    assert await place.names() == []
    undone = await place.storage.undo("ann")
    assert undone is not None
    assert await place.names() == ["one"]
    place.file.unlink()
    await place.add("two")
    assert await place.names() == ["two"]
    await place.storage.undo("ann")
    assert await place.names() == ["one"]


async def test_a_copy_put_back_by_hand_is_a_change(place: Place) -> None:
    for name in ("one", "two", "three"):
        await place.add(name)
    place.put(min(place.revisions.iterdir()).read_bytes())
    assert await place.names() == ["one"]
    await place.add("four")
    assert await place.names() == ["one", "four"]
    await place.storage.undo("ann")
    await place.storage.undo("ann")
    assert await place.names() == ["one", "two", "three"]
    await place.storage.undo("ann")
    assert await place.names() == ["one", "two"]


async def test_a_kill_between_file_and_copy_is_healed(place: Place) -> None:
    await place.add("one")
    await place.add("two")
    max(place.revisions.iterdir()).unlink()
    await place.add("three")
    lines = [change.what for change in await place.storage.changes("ann")]
    assert lines == ["added three", "added two", "added one"]


async def test_copies_are_bounded_in_number_and_bytes(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(MAX_CHANGES + 10):
        await place.add(f"f{number}")
    assert len(list(place.revisions.iterdir())) == MAX_CHANGES + 1
    monkeypatch.setattr(module, "MAX_KEPT_BYTES", 3 * place.file.stat().st_size)
    await place.add("last")
    assert len(await place.storage.changes("ann")) in (1, 2)
    monkeypatch.setattr(module, "MAX_KEPT_BYTES", 0)
    await place.add("very last")
    assert len(await place.storage.changes("ann")) == 1
    assert await place.storage.undo("ann") is not None


async def test_reading_makes_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    await place.storage.load("ann")
    await place.storage.changes("ann")
    await place.storage.undo("ann")
    await place.storage.delete("ann")
    await place.storage.close()
    assert os.listdir(tmp_path) == []


async def test_deleting_removes_the_copies_too(place: Place) -> None:
    await place.add("secret")
    await place.add("other")
    await place.storage.delete("ann")
    left = [p for p in place.folder.parents[1].rglob("*") if p.is_file()]
    assert all("secret" not in p.read_text() for p in left)
    assert not place.folder.exists()


async def test_a_folder_in_the_place_of_the_file(place: Place) -> None:
    place.file.mkdir(parents=True)
    with pytest.raises(StorageError) as caught:
        await place.add("one")
    assert "directory" in caught.value.message
    assert "nothing was changed" in caught.value.message


async def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "memory").write_text("x")
    storage = FileMemoryStorage(tmp_path / "memory")
    with pytest.raises(StorageError, match="cannot be used"):
        await storage.update("ann", adding(TEA))
    await storage.close()


async def test_a_full_disk_changes_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    await place.add("one")
    before = place.file.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="No space left"):
            await place.add("two")
    assert place.file.read_bytes() == before
    await place.add("three")
    assert await place.names() == ["one", "three"]


async def test_the_file_is_for_people(place: Place) -> None:
    await place.storage.update("ann", adding(Fact("f", "Mag Käse und 猫")))
    text = place.file.read_text(encoding="utf-8")
    assert '"content": "Mag Käse und 猫"' in text
    assert text.count("\n") > 20


async def test_what_has_not_changed_is_not_read_again(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.storage = FileMemoryStorage(tmp_path / "memory", age=0)
    assert await place.names() == []
    await place.add("one")
    first = await place.storage.load("ann")
    assert await place.storage.load("ann") is first
    await place.add("two")
    assert await place.names() == ["one", "two"]
    place.put(with_fact(place.file.read_bytes(), content="By hand, and longer than before"))
    assert "By hand" in (await place.storage.load("ann")).facts[0].content
    place.file.unlink()
    assert await place.names() == []
    await place.storage.close()
