"""Search of threads: metadata exactly, pinned ones first, pages that neither repeat nor skip."""

from typing import Any

import pytest

from deerflow.errors import ThreadGoneError
from deerflow.storage.protocol import Storage, ThreadQuery

AWKWARD: list[tuple[str, Any]] = [
    ("n", 1),
    ("n", 1.5),
    ("n", True),
    ("n", "1"),
    ("n", None),
    ("n", [1, {"a": "ü"}]),
    ("n", {"a": {"b": 1}}),
    ("n", "100%_!\"'\\ \n☃"),
    ('a "quoted" %_! key ☃', "x"),
    ("", ""),
]


async def fill(storage: Storage, *metadata: dict[str, Any]) -> list[str]:
    """Threads t0, t1, … of ann, each newer than the one before; their keys."""
    return [
        (await storage.threads.ensure("ann", f"t{number}", each)).thread_key
        for number, each in enumerate(metadata)
    ]


async def search(storage: Storage, user: str = "ann", **query: Any) -> list[str]:
    """Thread ids of a search, whose count is checked."""
    wanted = ThreadQuery(**query)
    found = await storage.threads.search(user, wanted)
    if "limit" not in query and "offset" not in query:
        assert await storage.threads.count(user, wanted) == len(found)
    assert found == [await storage.threads.get(user, row.thread_id) for row in found]
    return [row.thread_id for row in found]


async def test_newest_first_and_only_ones_own(storage: Storage) -> None:
    await fill(storage, {}, {}, {})
    await storage.threads.ensure("bob", "t9")

    assert await search(storage) == ["t2", "t1", "t0"]
    assert await search(storage, descending=False) == ["t0", "t1", "t2"]
    assert await search(storage, "bob") == ["t9"]
    assert await search(storage, "eve") == []


@pytest.mark.parametrize(("name", "value"), AWKWARD)
async def test_metadata_is_compared_exactly(storage: Storage, name: str, value: Any) -> None:
    await fill(storage, *({key: each} for key, each in AWKWARD), {}, {"deep": {name: value}})
    place = next(
        n for n, (k, v) in enumerate(AWKWARD) if k == name and (type(v), v) == (type(value), value)
    )

    assert await search(storage, metadata={name: value}) == [f"t{place}"]


async def test_all_keys_count(storage: Storage) -> None:
    await fill(storage, {"a": 1, "b": 2}, {"a": 1}, {"b": 2}, {"a": 1, "b": 2, "c": 3})

    assert await search(storage, metadata={"a": 1, "b": 2}) == ["t3", "t0"]
    assert await search(storage, metadata={"a": 1, "z": None}) == []


async def test_by_status_and_by_ids(storage: Storage) -> None:
    keys = await fill(storage, {}, {}, {})
    await storage.threads.update(keys[1], status="error")

    assert await search(storage, status="error") == ["t1"]
    assert await search(storage, ids=("t0", "t2", "other")) == ["t2", "t0"]
    assert await search(storage, ids=("t0", "t1"), status="idle") == ["t0"]
    assert await search(storage, ids=()) == []


@pytest.mark.parametrize("column", ["updated_at", "created_at", "thread_id", "status"])
@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("pinned_first", [True, False])
@pytest.mark.parametrize("metadata", [{}, {"kind": "x"}])
async def test_pages_neither_repeat_nor_skip(
    storage: Storage,
    column: Any,
    descending: bool,
    pinned_first: bool,
    metadata: dict[str, Any],
) -> None:
    kinds = [{"kind": "x", "deerflow_pinned": n % 3 == 0} for n in range(10)]
    await fill(storage, *kinds)
    how: dict[str, Any] = {
        "sort_by": column,
        "descending": descending,
        "pinned_first": pinned_first,
        "metadata": metadata,
    }
    whole = await search(storage, **how)
    pages = [await search(storage, **how, limit=3, offset=offset) for offset in range(0, 12, 3)]

    numbers = list(range(9, -1, -1) if descending else range(10))
    if pinned_first:
        numbers.sort(key=lambda n: n % 3 != 0)
    assert whole == [f"t{n}" for n in numbers]
    assert [id for page in pages for id in page] == whole


async def test_only_true_pins(storage: Storage) -> None:
    awkward = [{"deerflow_pinned": v} for v in (False, 1, "true", None)]
    await fill(storage, {"deerflow_pinned": True}, *awkward, {"x": {"deerflow_pinned": True}})

    assert await search(storage, pinned_first=True) == ["t0", "t5", "t4", "t3", "t2", "t1"]


async def test_a_description_is_merged_and_none_removes(storage: Storage) -> None:
    (key,) = await fill(storage, {"a": 1, "b": {"c": 2}})
    before = await storage.threads.by_key(key)
    row = await storage.threads.describe(key, {"a": None, "b": {"d": 3}, "e": "☃", "f": None})

    assert row.metadata == {"b": {"d": 3}, "e": "☃"}
    assert await storage.threads.by_key(key) == row
    assert before is not None
    assert row.updated_at == before.updated_at
    assert await search(storage, metadata={"e": "☃"}) == ["t0"]
    assert await search(storage, metadata={"a": 1}) == []


async def test_a_deleted_thread_is_neither_found_nor_described(storage: Storage) -> None:
    (key,) = await fill(storage, {"a": 1})
    await storage.threads.delete("ann", "t0")

    assert await storage.threads.by_key(key) is None
    assert await search(storage, metadata={"a": 1}) == []
    with pytest.raises(ThreadGoneError):
        await storage.threads.describe(key, {"a": 2})
    with pytest.raises(ThreadGoneError):
        await storage.threads.describe("0" * 32, {"a": 2})
