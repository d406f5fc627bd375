"""Threads: make, find, change, copy, remove."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, cast
from uuid import uuid4

from fastapi import APIRouter, Header, Response

from deerflow.errors import ConflictError, UsageError
from deerflow.gateway.deps import (
    Caller,
    Gateway,
    Open,
    ThreadDelete,
    ThreadRead,
    ThreadWrite,
    needs,
)
from deerflow.gateway.routes.bodies import PruneBody, ThreadBody, ThreadPatch, ThreadSearch, small
from deerflow.gateway.wire import thread_dict, values_dict
from deerflow.runtime.branching import Branches
from deerflow.storage.protocol import ThreadQuery, ThreadRow

router = APIRouter(tags=["threads"])

Reader = Annotated[Caller, needs("threads:read")]
Writer = Annotated[Caller, needs("threads:write")]
Deleter = Annotated[Caller, needs("threads:delete")]


@router.post("/threads", summary="Make a thread")
async def create(given: ThreadBody, gate: Open, who: Writer) -> dict[str, Any]:
    """A new thread, or the caller's own of this id; 409 for it with `if_exists: "raise"`."""
    threads = gate.runtime.harness.storage.threads
    metadata = dict(given.metadata or {})
    if given.graph_id:
        metadata["graph_id"] = given.graph_id
    thread_id = given.thread_id or str(uuid4())
    found = await threads.get(who.user_id, thread_id)
    if found is not None and given.if_exists == "raise":
        raise ConflictError(f"The thread {thread_id[:80]!r} exists already.")
    if found is None:
        found = await threads.ensure(who.user_id, thread_id, metadata)
    elif metadata and given.if_exists is None:
        found = await threads.describe(found.thread_key, _merging(found, metadata))
    for step in given.supersteps or ():
        await _superstep(gate, found, step)
    return await _whole(gate, found) if given.supersteps else thread_dict(found)


@router.post("/threads/search", summary="Find threads")
async def search(given: ThreadSearch, gate: Open, who: Reader) -> list[dict[str, Any]]:
    """The caller's threads; pinned ones (`deerflow_pinned`) first. States are not read."""
    rows = await gate.runtime.harness.storage.threads.search(who.user_id, query_of(given))
    found = [thread_dict(row) for row in rows]
    if given.select is None:
        return found
    chosen = {"thread_id", *given.select}
    return [{key: value for key, value in row.items() if key in chosen} for row in found]


@router.post("/threads/count", summary="Count threads")
async def count(given: ThreadSearch, gate: Open, who: Reader) -> int:
    """How many a search would find."""
    return await gate.runtime.harness.storage.threads.count(who.user_id, query_of(given))


@router.post("/threads/prune", summary="Prune or remove threads")
async def prune(given: PruneBody, gate: Open, who: Deleter) -> dict[str, int]:
    """With `keep_latest` earlier states go; otherwise the threads. Unknown ids are left out."""
    runtime, pruned = gate.runtime, 0
    found = [
        await runtime.harness.storage.threads.get(who.user_id, name) for name in given.thread_ids
    ]
    rows = [row for row in found if row is not None]
    if given.strategy == "keep_latest":
        return {"pruned_count": await branches_of(gate).prune(rows)}
    for row in rows:
        await runtime.submissions.delete_thread(who.user_id, row.thread_id)
        pruned += 1
    return {"pruned_count": pruned}


@router.get("/threads/{thread_id}", summary="A thread")
async def get(thread: ThreadRead, gate: Open) -> dict[str, Any]:
    """With its newest state."""
    return await _whole(gate, thread)


@router.patch("/threads/{thread_id}", summary="Change the metadata of a thread")
async def patch(
    thread: ThreadWrite,
    given: ThreadPatch,
    gate: Open,
    prefer: Annotated[str, Header()] = "",
) -> Any:
    """Merges; a value of null removes its key."""
    threads = gate.runtime.harness.storage.threads
    row = await threads.describe(thread.thread_key, _merging(thread, given.metadata))
    if "return=minimal" in prefer:
        return Response(status_code=204)
    return thread_dict(row)


@router.delete("/threads/{thread_id}", status_code=204, summary="Remove a thread")
async def delete(thread: ThreadDelete, gate: Open) -> Response:
    """Its runs are stopped; then rows, states, events and files go."""
    await gate.runtime.submissions.delete_thread(thread.user_id, thread.thread_id)
    return Response(status_code=204)


@router.post("/threads/{thread_id}/copy", summary="Copy a thread")
async def copy(thread: ThreadWrite, gate: Open) -> dict[str, Any]:
    """States, events and files, under a new id."""
    return await _whole(gate, await branches_of(gate).copy(thread, str(uuid4())))


def _merging(thread: ThreadRow, metadata: dict[str, Any]) -> dict[str, Any]:
    """Metadata to be merged into that of a thread.

    Raises:
        UsageError: both together are too large.
    """
    try:
        small({**thread.metadata, **metadata})
    except ValueError as error:
        raise UsageError(f"With what the thread has, {error}.") from None
    return metadata


def query_of(given: ThreadSearch) -> ThreadQuery:
    """The query that a search amounts to.

    Raises:
        UsageError: it asks for values, which rows do not have.
    """
    if given.values:
        raise UsageError(
            "Threads are not searched by their values.", cure="Search by metadata or status."
        )
    order = "updated_at" if given.sort_by == "state_updated_at" else given.sort_by
    return ThreadQuery(
        metadata=given.metadata or {},
        status=given.status,
        ids=tuple(given.ids) if given.ids is not None else None,
        limit=given.limit,
        offset=given.offset,
        sort_by=order,
        descending=given.sort_order == "desc",
        pinned_first=True,
    )


def branches_of(gate: Gateway) -> Branches:
    """Copies and reruns of threads."""
    return Branches(gate.runtime.harness.parts, gate.runtime.histories)


async def _whole(gate: Gateway, row: ThreadRow) -> dict[str, Any]:
    snapshot = await gate.runtime.histories.state(row)
    values = values_dict(snapshot, row) if snapshot is not None else None
    return thread_dict(row, snapshot=snapshot, values=values)


async def _superstep(gate: Gateway, thread: ThreadRow, step: Mapping[str, Any]) -> None:
    """Writes of one step of a thread that is brought along."""
    updates = step.get("updates")
    for update in cast("list[Any]", updates) if isinstance(updates, list) else []:
        values = update.get("values") if isinstance(update, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if not isinstance(values, dict):
            raise UsageError("supersteps[].updates[] is {values: {…}}.")
        await gate.runtime.histories.update(thread, cast("dict[str, Any]", values))
