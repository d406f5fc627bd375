"""What every storage of memories does alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deerflow.errors import UsageError
from deerflow.memory.protocol import (
    CATEGORIES,
    MAX_CHANGES,
    MAX_TAKEN,
    Fact,
    MemoryDocument,
    MemoryStorage,
    Source,
    Summary,
)
from fakes.memories import KINDS, adding, opened, skip_reason

TEA = Fact("f1", "Likes tea", "preference", 0.9, Source("t1", "m1"), 1_700_000_000.25, 1.7e9)
WIDE = Fact(
    "f2",
    "喜欢猫 \U0001f431 and \U0001d54f; “quotes” \\ ' \" <b>&amp; %s {x} İ ß ﬁ עברית",
    "correction",
    0.123456789012345,
    Source("thread/ü:1", "消息"),
    1_700_000_000.123456,
    1_700_000_001.999999,
    valid_days=0.5,
)


@pytest.fixture(params=KINDS)
async def storage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MemoryStorage]:
    """Each kind in turn, empty."""
    if reason := skip_reason(request.param):
        pytest.skip(reason)
    async with opened(request.param, tmp_path) as storage:
        yield storage


async def contents(storage: MemoryStorage, user: str = "ann") -> list[str]:
    return [fact.content for fact in (await storage.load(user)).facts]


async def test_a_new_user_has_an_empty_memory(storage: MemoryStorage) -> None:
    assert isinstance(storage, MemoryStorage)
    assert await storage.load("nobody") == MemoryDocument()
    assert await storage.changes("nobody") == []
    assert await storage.undo("nobody") is None
    assert await storage.search("nobody", "tea") == []
    assert await storage.delete("nobody") is False
    assert await storage.load("nobody") == MemoryDocument()


async def test_what_is_written_is_read_to_the_last_bit(storage: MemoryStorage) -> None:
    given = MemoryDocument(
        user={"workContext": Summary("Builds bridges. 桥", 1_700_000_000.000001)},
        history={"earlierContext": Summary("Once <b>in</b> Rome", 5.0)},
        facts=(TEA, WIDE, Fact("f3", "old", superseded_by="f2")),
        taken=("e1", "e2"),
    )
    written = await storage.update("ann", lambda _: (given, "all of it"))
    assert written == await storage.load("ann")
    assert written.with_(revision=0, updated_at=0.0) == given
    assert written.revision == 1
    assert written.updated_at > 1_700_000_000


async def test_a_change_that_changes_nothing(storage: MemoryStorage) -> None:
    assert await storage.update("ann", lambda _: None) == MemoryDocument()
    assert await storage.changes("ann") == []
    assert await storage.delete("ann") is False
    before = await storage.update("ann", adding(TEA))
    assert await storage.update("ann", lambda _: None) == before
    assert [change.revision for change in await storage.changes("ann")] == [1]


async def test_users_never_meet(storage: MemoryStorage) -> None:
    names = ["ann", "Ann", "ANN", "a/../ann", "%61nn", "ann ", "", "安", "x" * 300, "x" * 301, "\0"]
    for number, name in enumerate(names):
        await storage.update(name, adding(Fact(f"f{number}", f"secret of number {number}")))
    for number, name in enumerate(names):
        assert await contents(storage, name) == [f"secret of number {number}"]
        hits = await storage.search(name, "secret of number")
        assert [fact.content for fact, _ in hits] == [f"secret of number {number}"]
    assert await storage.delete("Ann") is True
    assert await contents(storage, "ann") == ["secret of number 0"]
    assert await contents(storage, "Ann") == []


async def test_what_cannot_be_kept_is_refused_and_changes_nothing(storage: MemoryStorage) -> None:
    before = await storage.update("ann", adding(TEA))
    for bad in (
        Fact("b", ""),
        Fact("b", "x" * 1_000_000),
        Fact("b", "x", confidence=float("nan")),
        Fact("b", "x", category="nonsense"),  # type: ignore[arg-type]
    ):
        with pytest.raises(UsageError):
            await storage.update("ann", adding(bad))
    for broken in (Fact("b", "x", created_at=float("inf")), Fact("f1", "another with the id")):
        with pytest.raises(ValueError):
            await storage.update("ann", lambda d, f=broken: (d.with_(facts=(*d.facts, f)), "x"))
    assert await storage.load("ann") == before


async def test_a_mutate_that_fails_changes_nothing(storage: MemoryStorage) -> None:
    before = await storage.update("ann", adding(TEA))

    def fail(document: MemoryDocument) -> tuple[MemoryDocument, str]:
        raise UsageError("no")

    with pytest.raises(UsageError, match="no"):
        await storage.update("ann", fail)
    assert await storage.load("ann") == before
    assert (await storage.update("ann", adding(WIDE))).revision == 2


async def test_odd_characters_are_cleaned_not_refused(storage: MemoryStorage) -> None:
    fact = Fact("f", "a\x00b\ud800c\n  d\u2028e", source=Source("t\x00", "\udfff"))
    await storage.update("ann", adding(fact, "a\x00line\n\ud800"))
    (kept,) = (await storage.load("ann")).facts
    assert kept.content == "a b?c d e"
    assert kept.source == Source("t", "?")
    (change,) = await storage.changes("ann")
    assert change.what == "a line ?"


async def test_undo_goes_back_one_by_one(storage: MemoryStorage) -> None:
    for number in range(4):
        await storage.update("ann", adding(Fact(f"f{number}", f"fact {number}"), f"did {number}"))
    assert [c.what for c in await storage.changes("ann")] == ["did 3", "did 2", "did 1", "did 0"]
    assert [c.what for c in await storage.changes("ann", limit=2)] == ["did 3", "did 2"]

    undone = [await storage.undo("ann"), await storage.undo("ann")]
    assert [(c.revision, c.what) for c in undone if c] == [(4, "did 3"), (3, "did 2")]
    assert await contents(storage) == ["fact 0", "fact 1"]
    assert (await storage.load("ann")).revision == 6

    await storage.update("ann", adding(Fact("g", "another"), "other"))
    assert [c.what for c in await storage.changes("ann")] == ["other", "did 1", "did 0"]
    for _ in range(3):
        assert await storage.undo("ann") is not None
    assert await contents(storage) == []
    assert await storage.undo("ann") is None
    assert await storage.changes("ann") == []
    assert (await storage.load("ann")).revision == 10


async def test_an_undo_does_not_take_an_exchange_again(storage: MemoryStorage) -> None:
    await storage.update("ann", lambda d: (d.with_(facts=(TEA,), taken=("entry",)), "took"))
    await storage.undo("ann")
    document = await storage.load("ann")
    assert (document.facts, document.taken) == ((), ("entry",))


async def test_changes_and_taken_entries_are_bounded(storage: MemoryStorage) -> None:
    many = tuple(f"e{number}" for number in range(MAX_TAKEN + 5))
    await storage.update("ann", lambda d: (d.with_(taken=many), "many"))
    assert (await storage.load("ann")).taken == many[5:]
    for number in range(MAX_CHANGES + 2):
        text = f"version {number}"
        await storage.update("ann", lambda d, t=text: (d.with_(facts=(Fact("f", t),)), t))
    changes = await storage.changes("ann", limit=1000)
    assert len(changes) == MAX_CHANGES
    for _ in changes:
        assert await storage.undo("ann") is not None
    assert await storage.undo("ann") is None
    assert await contents(storage) == ["version 1"]


async def test_deleting_leaves_nothing(storage: MemoryStorage) -> None:
    await storage.update("ann", adding(TEA))
    await storage.update("ann", adding(WIDE))
    assert await storage.delete("ann") is True
    assert await storage.load("ann") == MemoryDocument()
    assert await storage.changes("ann") == []
    assert await storage.search("ann", "tea") == []
    assert await storage.undo("ann") is None
    assert await storage.delete("ann") is False
    assert (await storage.update("ann", adding(TEA))).revision == 1
    assert len(await storage.changes("ann")) == 1


async def test_search_finds_by_words_the_best_first(storage: MemoryStorage) -> None:
    facts = (
        Fact("tea", "Drinks green tea in the morning", confidence=0.7),
        Fact("coffee", "Coffee only on Mondays"),
        Fact("both", "Green tea rather than black tea, never coffee"),
        Fact("past", "Drank green tea daily", superseded_by="tea"),
        Fact("cats", "我喜欢猫，住在柏林"),
        Fact("school", "Daughter's school starts at eight"),
        Fact("hindi", "हिन्दी बोलता है"),
        Fact("cpp", "Writes C++ and user_name3"),
    )
    await storage.update("ann", lambda d: (d.with_(facts=facts), "facts"))

    async def found(query: str, limit: int = 15) -> list[str]:
        hits = await storage.search("ann", query, limit=limit)
        assert all(score > 0 for _, score in hits)
        assert [score for _, score in hits] == sorted((s for _, s in hits), reverse=True)
        return [fact.id for fact, _ in hits]

    assert await found("green TEA?") == ["both", "tea"]
    assert await found("green tea", limit=1) == ["both"]
    assert await found("what about coffee on a monday") == ["coffee", "both"]
    assert await found("猫") == ["cats"]
    assert await found("住") == ["cats"]
    assert await found("他住在哪里") == ["cats"]
    assert await found("林") == ["cats"]
    assert await found("狗") == []
    assert await found("schools") == ["school"]
    assert await found("ｇｒｅｅｎ") == ["tea", "both"]
    assert await found("हिन्दी") == ["hindi"]
    assert await found("name3") == ["cpp"]
    assert await found("AND OR NOT NEAR(\"' * ) : ^ & | ! <-> \\ ;--") == []
    assert await found("owner : words") == []
    assert await found("the") == ["tea"]
    assert await found("") == []
    assert await found("?!") == []
    assert set(await found("x " * 100_000 + "green tea")) == {"both", "tea"}


async def test_search_follows_changes(storage: MemoryStorage) -> None:
    await storage.update("ann", adding(TEA))
    await storage.update(
        "ann",
        lambda d: (d.with_(facts=(TEA.with_(superseded_by="n"), Fact("n", "Likes cocoa"))), "n"),
    )
    assert await storage.search("ann", "tea") == []
    assert [fact.id for fact, _ in await storage.search("ann", "cocoa")] == ["n"]
    await storage.undo("ann")
    assert [fact.id for fact, _ in await storage.search("ann", "tea")] == ["f1"]
    assert await storage.search("ann", "cocoa") == []
    await storage.update("ann", lambda d: (d.with_(facts=()), "none"))
    assert await storage.search("ann", "tea") == []


async def test_tasks_of_one_process_lose_nothing(storage: MemoryStorage) -> None:
    async def write(name: str) -> None:
        for number in range(5):
            await storage.update("ann", adding(Fact(f"{name}{number}", f"{name} says {number}")))

    names = [f"task{number}" for number in range(8)]
    await asyncio.gather(*(write(name) for name in names))
    document = await storage.load("ann")
    assert {f.content for f in document.facts} == {f"{n} says {i}" for n in names for i in range(5)}
    assert document.revision == 40


words = st.text(min_size=1, max_size=40).filter(lambda t: t.strip() and t.isprintable())
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), words, st.sampled_from(CATEGORIES), st.floats(0, 1)),
        st.just(("undo",)),
        st.tuples(st.just("drop"), st.integers(0, 5)),
    ),
    max_size=12,
)


@pytest.mark.parametrize("kind", ["file", "sqlite"])
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
async def test_it_does_what_the_twin_does(kind: str, tmp_path: Path, todo: list[tuple]) -> None:
    """Any sequence of changes and undos leaves the same memory as in the in-memory storage."""
    async with opened("memory", tmp_path) as twin, opened(kind, tmp_path) as storage:
        await storage.delete("ann")
        for number, step in enumerate(todo):
            for each in (twin, storage):
                if step[0] == "undo":
                    await each.undo("ann")
                elif step[0] == "add":
                    fact = Fact(f"f{number}", step[1], step[2], step[3])
                    await each.update("ann", adding(fact, f"step {number}", max_facts=4))
                else:
                    await each.update(
                        "ann", lambda d, n=step[1]: (d.with_(facts=d.facts[n:]), "dropped")
                    )
        left, right = await twin.load("ann"), await storage.load("ann")
        assert left.with_(updated_at=0.0) == right.with_(updated_at=0.0)
        lines = [
            [(change.revision, change.what) for change in await each.changes("ann")]
            for each in (twin, storage)
        ]
        assert lines[0] == lines[1]
