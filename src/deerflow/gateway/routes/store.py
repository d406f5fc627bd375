"""The caller's key-value store of the LangGraph protocol."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import Field

from deerflow.errors import NotFoundError, UsageError
from deerflow.gateway.deps import Caller, Open, needs
from deerflow.gateway.routes.bodies import Body, Count, Json, Offset

router = APIRouter(prefix="/store", tags=["store"])

Reader = Annotated[Caller, needs("account:read")]
Writer = Annotated[Caller, needs("account:write")]
Label = Annotated[str, Field(min_length=1, max_length=255)]
Namespace = Annotated[list[Label], Field(min_length=1, max_length=32)]
Prefix = Annotated[list[Label], Field(max_length=32)]
Name = Annotated[str, Field(min_length=1, max_length=1024)]


class ItemBody(Body):
    """A value to be stored."""

    namespace: Namespace
    key: Name
    value: Json
    index: bool | list[str] | None = None
    ttl: float | None = Field(None, gt=0, le=5_256_000)


class ItemName(Body):
    """A value's place."""

    namespace: Prefix = Field(default_factory=list)
    key: Name


class ItemSearch(Body):
    """Which values."""

    namespace_prefix: Prefix = Field(default_factory=list)
    filter: Json | None = None
    limit: Count = 10
    offset: Offset = 0
    query: str | None = None
    refresh_ttl: bool | None = None


class NamespaceSearch(Body):
    """Which namespaces."""

    prefix: Prefix | None = None
    suffix: Prefix | None = None
    max_depth: int | None = Field(None, ge=1, le=100)
    limit: Count = 100
    offset: Offset = 0


@router.put("/items", status_code=204, summary="Store a value")
async def put(given: ItemBody, gate: Open, who: Writer) -> Response:
    """Replaces the one that is there; `ttl` in minutes."""
    _checked(given.namespace)
    store = gate.runtime.harness.storage.items(who.user_id)
    await store.aput(tuple(given.namespace), given.key, given.value, ttl=given.ttl)
    return Response(status_code=204)


@router.get("/items", summary="A value")
async def get(
    gate: Open,
    who: Reader,
    key: Annotated[str, Query(min_length=1, max_length=1024)],
    namespace: Annotated[str, Query(max_length=8192)] = "",
    refresh_ttl: bool | None = None,
) -> dict[str, Any]:
    """`namespace` is joined with points."""
    labels = _checked([label for label in namespace.split(".") if label])
    store = gate.runtime.harness.storage.items(who.user_id)
    found = await store.aget(tuple(labels), key, refresh_ttl=refresh_ttl) if labels else None
    if found is None:
        raise NotFoundError("There is no such item.")
    return item_dict(found)


@router.delete("/items", status_code=204, summary="Remove a value")
async def delete(given: ItemName, gate: Open, who: Writer) -> Response:
    """Nothing when it is not there."""
    if given.namespace:
        store = gate.runtime.harness.storage.items(who.user_id)
        await store.adelete(tuple(_checked(given.namespace)), given.key)
    return Response(status_code=204)


@router.post("/items/search", summary="Find values")
async def search(given: ItemSearch, gate: Open, who: Reader) -> dict[str, Any]:
    """By namespace and by fields of the value; `query` has no effect."""
    found = await gate.runtime.harness.storage.items(who.user_id).asearch(
        tuple(_checked(given.namespace_prefix)),
        filter=given.filter,
        limit=given.limit,
        offset=given.offset,
        refresh_ttl=given.refresh_ttl,
    )
    return {"items": [{**item_dict(item), "score": item.score} for item in found]}


@router.post("/namespaces", summary="List namespaces")
async def namespaces(given: NamespaceSearch, gate: Open, who: Reader) -> dict[str, Any]:
    """Those that hold values."""
    found = await gate.runtime.harness.storage.items(who.user_id).alist_namespaces(
        prefix=tuple(_checked(given.prefix)) if given.prefix else None,
        suffix=tuple(_checked(given.suffix)) if given.suffix else None,
        max_depth=given.max_depth,
        limit=given.limit,
        offset=given.offset,
    )
    return {"namespaces": [list(namespace) for namespace in found]}


def item_dict(item: Any) -> dict[str, Any]:
    """A value with its place and times, of an `Item` of LangGraph's store."""
    return {
        "namespace": list(item.namespace),
        "key": item.key,
        "value": item.value,
        "created_at": item.created_at.isoformat(),
        "updated_at": item.updated_at.isoformat(),
    }


def _checked(labels: list[str]) -> list[str]:
    for label in labels:
        if "." in label or "\0" in label or label == "langgraph":
            raise UsageError(
                f"{label[:80]!r} is no label of a namespace.",
                cure="Labels have neither point nor NUL, and are not 'langgraph'.",
            )
    return labels
