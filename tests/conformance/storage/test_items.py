"""Items: the key-value store of the LangGraph protocol, one per user."""

import math
import time
from typing import Any

import pytest
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    PutOp,
    SearchOp,
)

from deerflow.errors import StorageError, UsageError
from deerflow.storage.protocol import Storage


@pytest.fixture
async def items(storage: Storage) -> BaseStore:
    """Ann's, empty."""
    return storage.items("ann")


async def test_an_item_is_put_replaced_and_deleted(items: BaseStore) -> None:
    value: dict[str, Any] = {"a": [1, {"b": None}]}
    await items.aput(("notes", "x"), "k", value)
    value["a"] = "changed afterwards"

    first = await items.aget(("notes", "x"), "k")
    assert first is not None
    assert first.value == {"a": [1, {"b": None}]}
    assert (first.namespace, first.key) == (("notes", "x"), "k")
    await items.aput(("notes", "x"), "k", {"a": 2})
    second = await items.aget(("notes", "x"), "k")
    assert second is not None
    assert second.value == {"a": 2}
    assert second.created_at == first.created_at
    assert second.updated_at > first.updated_at
    await items.adelete(("notes", "x"), "k")
    await items.adelete(("notes", "x"), "k")
    assert await items.aget(("notes", "x"), "k") is None


async def test_a_user_never_sees_anothers(storage: Storage) -> None:
    await storage.items("ann").aput(("n",), "k", {"whose": "ann"})
    await storage.items("bob").aput(("n",), "k", {"whose": "bob"})

    found = await storage.items("ann").asearch(())
    assert [item.value for item in found] == [{"whose": "ann"}]
    await storage.items("bob").adelete(("n",), "k")
    assert await storage.items("ann").aget(("n",), "k") is not None
    assert await storage.items("bob").alist_namespaces() == []


async def test_search_goes_by_whole_labels_newest_first(items: BaseStore) -> None:
    for namespace, key in (
        (("a", "b"), "1"),
        (("a",), "2"),
        (("ab",), "3"),
        (("a", "b", "c"), "4"),
    ):
        await items.aput(namespace, key, {"n": int(key)})

    assert [item.key for item in await items.asearch(("a",))] == ["4", "2", "1"]
    assert [item.key for item in await items.asearch(("a", "b"))] == ["4", "1"]
    assert [item.key for item in await items.asearch(())] == ["4", "3", "2", "1"]
    assert [item.key for item in await items.asearch((), limit=2, offset=1)] == ["3", "2"]
    assert await items.asearch((), limit=0) == []


async def test_labels_may_hold_what_a_pattern_would_mean(items: BaseStore) -> None:
    await items.aput(("100%_x",), "1", {})
    await items.aput(("100 ÄÖ x",), "2", {})

    assert [item.key for item in await items.asearch(("100%_x",))] == ["1"]
    assert [item.key for item in await items.asearch(("100 ÄÖ x",))] == ["2"]
    assert await items.alist_namespaces() == [("100 ÄÖ x",), ("100%_x",)]


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        ({"kind": "a"}, "31"),
        ({"kind": {"$ne": "a"}}, "42"),
        ({"n": {"$gt": 1, "$lte": 3}}, "32"),
        ({"n": {"$gte": 3}}, "43"),
        ({"n": {"$lt": 2}}, "1"),
        ({"deep": {"x": 1}}, "1"),
        ({"deep": {"x": {"$eq": 1}}}, "1"),
        ({"list": [1, 2]}, "2"),
        ({"n": True}, ""),
        ({"kind": {"$gt": 5}}, ""),
        ({"none": None}, "4321"),
        ({"kind": "a", "n": 3}, "3"),
    ],
)
async def test_a_filter_compares_fields(items: BaseStore, wanted: Any, keys: str) -> None:
    await items.aput(("f",), "1", {"kind": "a", "n": 1, "deep": {"x": 1, "y": 2}})
    await items.aput(("f",), "2", {"kind": "b", "n": 2, "list": [1, 2]})
    await items.aput(("f",), "3", {"kind": "a", "n": 3})
    await items.aput(("f",), "4", {"kind": "b", "n": 4})

    found = await items.asearch(("f",), filter=wanted)
    assert "".join(item.key for item in found) == keys


async def test_a_filter_goes_with_limit_and_offset(items: BaseStore) -> None:
    for n in range(6):
        await items.aput(("f",), str(n), {"even": n % 2 == 0})

    found = await items.asearch(("f",), filter={"even": True}, limit=2, offset=1)
    assert [item.key for item in found] == ["2", "0"]


async def test_namespaces_are_listed(items: BaseStore) -> None:
    for namespace in (("a", "b", "c"), ("a", "b", "d"), ("a", "x"), ("z", "c")):
        await items.aput(namespace, "k", {})

    assert await items.alist_namespaces() == [
        ("a", "b", "c"), ("a", "b", "d"), ("a", "x"), ("z", "c"),
    ]  # fmt: skip
    assert await items.alist_namespaces(max_depth=2) == [("a", "b"), ("a", "x"), ("z", "c")]
    assert await items.alist_namespaces(prefix=("a", "*")) == [
        ("a", "b", "c"), ("a", "b", "d"), ("a", "x"),
    ]  # fmt: skip
    assert await items.alist_namespaces(suffix=("c",)) == [("a", "b", "c"), ("z", "c")]
    assert await items.alist_namespaces(prefix=("a",), suffix=("c",)) == [("a", "b", "c")]
    assert await items.alist_namespaces(limit=1, offset=1) == [("a", "b", "d")]
    assert await items.alist_namespaces(prefix=("a", "b", "c", "d")) == []


async def test_an_item_expires_unless_it_is_read(items: BaseStore) -> None:
    moment = 0.0002  # minutes
    await items.aput(("t",), "short", {}, ttl=moment)
    await items.aput(("t",), "long", {}, ttl=60)
    await items.aput(("t",), "ever", {})

    await until_gone(items, "short")
    assert [item.key for item in await items.asearch(("t",))] == ["ever", "long"]
    await items.aput(("t",), "short", {"again": True})
    again = await items.aget(("t",), "short")
    assert again is not None
    assert again.created_at == again.updated_at


async def until_gone(items: BaseStore, key: str) -> None:
    """Read without prolonging until it is gone."""
    while await items.aget(("t",), key, refresh_ttl=False) is not None:
        pass


async def test_reading_prolongs(items: BaseStore) -> None:
    seconds = 1.8
    await items.aput(("t",), "k", {}, ttl=seconds / 60)
    end = time.monotonic() + seconds + 0.3

    while time.monotonic() < end:
        assert await items.aget(("t",), "k") is not None
    assert await items.aget(("t",), "k", refresh_ttl=False) is not None


async def test_a_batch_reads_before_it_writes_and_the_last_write_counts(items: BaseStore) -> None:
    await items.aput(("n",), "k", {"v": 0})

    results = await items.abatch(
        [
            PutOp(("n",), "k", {"v": 1}),
            GetOp(("n",), "k"),
            PutOp(("n",), "k", {"v": 2}),
            SearchOp(("n",)),
            ListNamespacesOp(),
            PutOp(("n",), "gone", {}),
            PutOp(("n",), "gone", None),
        ]
    )

    assert results[0] is None
    assert getattr(results[1], "value", None) == {"v": 0}
    assert results[4] == [("n",)]
    found = await items.asearch(("n",))
    assert [(item.key, item.value) for item in found] == [("k", {"v": 2})]


async def test_bad_input_is_refused(items: BaseStore) -> None:
    with pytest.raises(InvalidNamespaceError):
        await items.aput(("a.b",), "k", {})
    with pytest.raises(InvalidNamespaceError):
        await items.abatch([PutOp(("",), "k", {})])
    with pytest.raises(UsageError, match="offset -1"):
        await items.asearch((), offset=-1)
    with pytest.raises(UsageError, match=r"\$like.*unknown"):
        await items.asearch((), filter={"a": {"$like": "x"}})
    with pytest.raises(UsageError, match="ttl"):
        await items.aput(("a",), "k", {}, ttl=math.nan)
    with pytest.raises(StorageError, match="not JSON"):
        await items.aput(("a",), "k", {"a": object()})
    with pytest.raises(NotImplementedError, match="async only"):
        items.get(("a",), "k")
    assert await items.asearch(()) == []
