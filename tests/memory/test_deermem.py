"""`DeerMem` over a storage in memory: what people and the model do with a memory."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deerflow.config.agents import MemoryBackendConfig
from deerflow.errors import NotFoundError, UsageError
from deerflow.memory.deermem.deermem import DeerMem
from deerflow.memory.inmemory import InMemoryStorage
from deerflow.memory.protocol import (
    RETIRED,
    Exchange,
    Fact,
    FlushReport,
    MemoryDocument,
    MemoryStorage,
    Source,
    Summary,
    UpdateQueue,
)


class Clock:
    """A clock that goes on by a day with each look."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        self.now += 86_400
        return self.now


class Queue:
    """Notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    async def put(self, user_id: str, thread_key: str, exchange: Exchange) -> str:
        self.asked.append(("put", user_id, thread_key, exchange))
        return "entry"

    async def flush(
        self, *, user_id: str | None = None, seconds: float, force: bool = True
    ) -> FlushReport:
        self.asked.append(("flush", user_id, seconds, force))
        return FlushReport(1, 2, timed_out=True)

    async def pending(self, user_id: str | None = None) -> int:
        return 2

    async def discard(self, user_id: str) -> int:
        self.asked.append(("discard", user_id))
        return 2

    async def start(self) -> None:
        self.asked.append(("start",))

    async def close(self) -> None:
        self.asked.append(("close",))


def made(storage: MemoryStorage | None = None, queue: UpdateQueue | None = None, **config: Any):
    return DeerMem(storage or InMemoryStorage(), queue, MemoryBackendConfig(**config), now=Clock())


async def current(memory: DeerMem) -> list[str]:
    return [fact.content for fact in (await memory.load("ann")).current]


async def test_adding_twice_confirms() -> None:
    memory = made()
    fact = await memory.add("ann", " Likes\ntea ", category="preference", source=Source("t1"))
    assert (fact.content, fact.category, fact.source) == ("Likes tea", "preference", Source("t1"))
    again = await memory.add("ann", "likes TEA!")
    assert again.id == fact.id
    assert again.created_at == fact.created_at
    assert again.last_confirmed > fact.last_confirmed
    assert await current(memory) == ["Likes tea"]
    change = await memory.undo("ann")
    assert change is not None
    assert change.what == "confirmed “Likes tea”"


@pytest.mark.parametrize(
    "fields",
    [{"content": ""}, {"content": "x" * 2001}, {"category": "mood"}, {"confidence": 2}],
)
async def test_what_cannot_be_added(fields: dict[str, Any]) -> None:
    memory = made()
    fact = await memory.add("ann", "Likes tea")
    with pytest.raises(UsageError):
        await memory.add("ann", **{"content": "x", **fields})
    with pytest.raises(UsageError):
        await memory.change("ann", fact.id, **fields)
    assert await current(memory) == ["Likes tea"]


async def test_a_change_supersedes_with_pointers_both_ways() -> None:
    memory = made()
    old = await memory.add("ann", "Lives in Bonn", confidence=0.8, source=Source("t1", "m1"))
    new = await memory.change("ann", old.id, content="Lives in Oslo", source=Source("t2"))
    assert (new.supersedes, new.confidence, new.source) == (old.id, 0.8, Source("t2"))
    kept = (await memory.load("ann")).facts
    assert kept == (old.with_(superseded_by=new.id), new)
    assert await current(memory) == ["Lives in Oslo"]

    rated = await memory.change("ann", new.id, confidence=0.5, category="knowledge")
    assert (rated.content, rated.confidence, rated.source) == ("Lives in Oslo", 0.5, Source("t2"))
    by_hand = await memory.change("ann", rated.id, content="Lives in Rome")
    assert by_hand.source == Source()

    with pytest.raises(NotFoundError) as caught:
        await memory.change("ann", old.id, content="x")
    assert new.id in caught.value.cure
    for _ in range(3):
        await memory.undo("ann")
    assert await current(memory) == ["Lives in Bonn"]


async def test_a_change_that_changes_nothing_is_none() -> None:
    memory = made()
    fact = await memory.add("ann", "Likes tea")
    assert await memory.change("ann", fact.id, content="Likes tea", confidence=1.0) == fact
    assert (await memory.load("ann")).revision == 1


async def test_a_change_into_a_known_fact_joins_the_two() -> None:
    memory = made()
    tea, chai = await memory.add("ann", "Likes tea"), await memory.add("ann", "Likes chai")
    kept = await memory.change("ann", chai.id, content="likes tea")
    assert kept.id == tea.id
    assert await current(memory) == ["Likes tea"]


async def test_fields_and_ids_that_do_not_exist() -> None:
    memory = made()
    fact = await memory.add("ann", "Likes tea")
    with pytest.raises(UsageError, match="mood"):
        await memory.change("ann", fact.id, mood="good")
    for attempt in (memory.change("ann", "nobody", content="x"), memory.forget("ann", "nobody")):
        with pytest.raises(NotFoundError):
            await attempt
    with pytest.raises(NotFoundError):
        await memory.forget("bob", fact.id)


async def test_forgetting_and_undo() -> None:
    memory = made()
    fact = await memory.add("ann", "Likes tea")
    assert await memory.forget("ann", fact.id) == fact
    assert (await memory.load("ann")).facts == ()
    change = await memory.undo("ann")
    assert change is not None
    assert "tea" not in change.what  # the history of changes does not repeat what is forgotten
    assert (await memory.load("ann")).facts == (fact,)


async def test_what_makes_room_is_history() -> None:
    memory = made(max_facts=2)
    for number, confidence in enumerate((0.9, 0.7, 0.8)):
        await memory.add("ann", f"Fact {number}", confidence=confidence)
    document = await memory.load("ann")
    assert [fact.content for fact in document.current] == ["Fact 0", "Fact 2"]
    assert document.facts[1].superseded_by == RETIRED
    with pytest.raises(NotFoundError, match="history"):
        await memory.change("ann", document.facts[1].id, content="x")


async def test_search_without_words_gives_the_newest() -> None:
    memory = made()
    for name in ("one", "two", "three"):
        await memory.add("ann", f"Fact {name}")
    assert [fact.content for fact in await memory.search("ann", " ", limit=2)] == [
        "Fact three",
        "Fact two",
    ]
    assert [fact.content for fact in await memory.search("ann", "one")] == ["Fact one"]
    assert await memory.search("bob", "one") == []


async def test_context_is_of_the_user_who_asks() -> None:
    memory = made()
    await memory.add("ann", "Likes tea")
    assert "Likes tea" in await memory.context("ann", "drinks")
    assert await memory.context("bob", "drinks") == ""
    small = made(max_injection_tokens=5)
    await small.add("ann", "Likes tea")
    assert await small.context("ann", "drinks") == ""


async def test_an_export_can_be_imported_anywhere() -> None:
    memory = made()
    await memory.add("ann", "Likes tea", source=Source("t1", "m1"))
    fact = await memory.add("ann", "Lives in Bonn")
    await memory.change("ann", fact.id, content="Lives in Oslo")
    raw = await memory.export("ann")
    assert raw.keys() == {"version", "lastUpdated", "user", "history", "facts"}

    other = made()
    report = await other.take_in("bob", json.dumps(raw).encode())
    assert (report.facts, report.summaries, report.left_out) == (3, 0, ())
    assert (await other.load("bob")).facts == (await memory.load("ann")).facts
    assert (await other.take_in("bob", raw)).facts == 0
    assert (await other.load("bob")).revision == 1
    await other.undo("bob")
    assert (await other.load("bob")).facts == ()


async def test_an_import_joins_what_is_there() -> None:
    storage = InMemoryStorage()
    memory = made(storage)
    await storage.update(
        "ann",
        lambda _: (
            MemoryDocument(
                user={"workContext": Summary("New.", 9.0), "topOfMind": Summary("Old.", 1.0)},
                facts=(Fact("same id", "Likes tea", confidence=0.7),),
            ),
            "given",
        ),
    )
    report = await memory.take_in(
        "ann",
        {
            "user": {
                "workContext": {"summary": "Older.", "updatedAt": "1970-01-01T00:00:05Z"},
                "topOfMind": {"summary": "Newer.", "updatedAt": "1970-01-01T00:00:05Z"},
            },
            "facts": [
                {"id": "a", "content": "likes tea!", "confidence": 0.9},
                {"id": "same id", "content": "Has a dog", "supersededBy": "b"},
                {"id": "b", "content": "Has a cat", "supersedes": "same id"},
                {"id": "c", "content": "has a CAT"},
                {"id": "d", "content": "x" * 1_048_576},
            ],
        },
    )
    assert (report.facts, report.summaries) == (2, 1)
    assert report.left_out == (
        "facts[4] has 1,048,576 characters, at most 2,000 are kept",
        "user.workContext is older than what is remembered",
    )
    document = await memory.load("ann")
    tea, dog, cat = document.facts
    assert (tea.id, tea.content, tea.confidence) == ("same id", "Likes tea", 0.9)
    assert (dog.content, cat.content) == ("Has a dog", "Has a cat")
    assert dog.id != "same id"
    assert (dog.superseded_by, cat.supersedes) == (cat.id, dog.id)
    assert cat.created_at > 0
    assert {name: s.text for name, s in document.user.items()} == {
        "workContext": "New.",
        "topOfMind": "Newer.",
    }


async def test_an_import_of_too_much_retires_the_rest() -> None:
    memory = made(max_facts=3)
    raw = {"facts": [{"content": f"Fact {n}", "confidence": n / 10} for n in range(5)]}
    report = await memory.take_in("ann", raw)
    assert report.left_out == ("2 facts became history: at most 3 are current",)
    assert await current(memory) == ["Fact 2", "Fact 3", "Fact 4"]


@pytest.mark.parametrize("raw", [b'{"facts": [{"con', b"", b"\xff", None, [], {"a": 1}, "text"])
async def test_what_is_no_memory_is_refused(raw: Any) -> None:
    memory = made()
    await memory.add("ann", "Likes tea")
    with pytest.raises(UsageError) as caught:
        await memory.take_in("ann", raw)
    assert caught.value.cure
    assert (await memory.load("ann")).revision == 1


async def test_the_writing_side_is_asked() -> None:
    queue = Queue()
    assert isinstance(queue, UpdateQueue)
    memory = made(queue=queue)
    exchange = Exchange("hello", "hi")
    assert await memory.queue("ann", "key", exchange) == "entry"
    assert await memory.flush(user_id="ann", seconds=3, force=False) == FlushReport(1, 2, True)
    assert await memory.pending("ann") == 2
    await memory.start()
    assert await memory.clear("ann") is True
    await memory.close()
    assert queue.asked == [
        ("put", "ann", "key", exchange),
        ("flush", "ann", 3, False),
        ("start",),
        ("discard", "ann"),
        ("close",),
    ]


async def test_without_a_writing_side() -> None:
    memory = made()
    assert await memory.queue("ann", "key", Exchange("hello", "hi")) == ""
    assert await memory.flush(seconds=1) == FlushReport()
    assert await memory.pending() == 0
    await memory.start()
    assert await memory.clear("ann") is False
    await memory.add("ann", "Likes tea")
    assert await memory.clear("ann") is True
    await memory.close()
