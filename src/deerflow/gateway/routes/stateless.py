"""Runs without a thread in their path: each gets a thread of its own, or names one of the caller's.

A thread that is named and is not the caller's is not there, whoever has it.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, Response

from deerflow.errors import ConflictError, NotFoundError, UsageError
from deerflow.gateway.deps import Caller, Gateway, Open, needs
from deerflow.gateway.routes.bodies import CancelBody, Ident, RunBody, StatelessBody
from deerflow.gateway.routes.running import (
    Found,
    Joining,
    Streaming,
    asked_for,
    stream_of,
    submit,
    waited,
)
from deerflow.gateway.routes.runs import Action, Creator, Key
from deerflow.gateway.wire import run_dict
from deerflow.runtime.checks import no_thread

router = APIRouter(tags=["runs"])

Reader = Annotated[Caller, needs("runs:read")]
Canceller = Annotated[Caller, needs("runs:cancel")]


@router.post("/runs", summary="Create a run in the background, in a new thread")
async def create(
    given: StatelessBody, gate: Open, who: Creator, response: Response, key: Key = None
) -> dict[str, Any]:
    """The run as it is accepted."""
    found = await begin(gate, who, given, key=key, interactive=False)
    response.headers["Content-Location"] = found.content_location
    return run_dict(found.run, found.thread.thread_id)


@router.post("/runs/stream", summary="Create a run in a new thread and follow it")
async def create_and_stream(
    given: StatelessBody, gate: Open, who: Creator, key: Key = None
) -> Response:
    """Server-sent events until the run has ended."""
    wanted = asked_for(given.stream_mode, subgraphs=bool(given.stream_subgraphs))
    found = await begin(gate, who, given, key=key)
    return await stream_of(gate, found, Streaming(wanted, cancel=given.on_disconnect == "cancel"))


@router.post("/runs/wait", summary="Create a run in a new thread and wait for its result")
async def create_and_wait(
    given: StatelessBody, gate: Open, who: Creator, key: Key = None
) -> Response:
    """The values after the run, or `{"__error__": …}`."""
    found = await begin(gate, who, given, key=key)
    return waited(gate, found, cancel=given.on_disconnect == "cancel")


@router.post("/runs/batch", summary="Create several runs in the background")
async def batch(given: list[StatelessBody], gate: Open, who: Creator) -> list[dict[str, Any]]:
    """The runs as they are accepted, in order; nothing is accepted when one names no thread here.

    Raises:
        UsageError: more than 100.
    """
    if len(given) > MOST_RUNS:
        raise UsageError(f"A batch has at most {MOST_RUNS} runs.")
    for body in given:
        await named(gate, who, body)
    found = [await begin(gate, who, body, interactive=False) for body in given]
    return [run_dict(item.run, item.thread.thread_id) for item in found]


@router.post("/runs/cancel", status_code=204, summary="Stop several runs")
async def cancel(
    given: CancelBody, gate: Open, who: Canceller, action: Action = "interrupt"
) -> Response:
    """By thread and ids, or by status; runs that have ended are left out."""
    statuses = (given.status,) if given.status in ("pending", "running") else UNFINISHED
    await gate.runtime.submissions.cancel_all(
        who.user_id,
        thread_id=given.thread_id,
        run_ids=given.run_ids,
        statuses=statuses,
        action=action,
    )
    return Response(status_code=204)


@router.get("/runs/{run_id}/stream", summary="Follow a run by its id alone")
async def stream(run_id: Ident, how: Joining, gate: Open, who: Reader) -> Response:
    """Its stream from `Last-Event-ID` on, without one from the beginning."""
    found = Found(*await gate.runtime.submissions.find(who.user_id, run_id))
    return await stream_of(gate, found, how)


MOST_RUNS = 100
"""Runs of one batch."""
UNFINISHED = ("pending", "running")


async def named(gate: Gateway, who: Caller, given: RunBody) -> str | None:
    """The thread that a request names.

    Raises:
        NotFoundError: the caller has none of this id.
    """
    thread_id = given.thread_named()
    if thread_id is None:
        return None
    if await gate.runtime.harness.storage.threads.get(who.user_id, thread_id) is None:
        raise no_thread(thread_id)
    return thread_id


async def begin(
    gate: Gateway,
    who: Caller,
    given: StatelessBody,
    *,
    key: str | None = None,
    interactive: bool = True,
) -> Found:
    """Hand in a run in the thread that it names, or in a new one."""
    thread_id = await named(gate, who, given)
    fresh = thread_id is None
    found = await submit(
        gate, who, thread_id or str(uuid4()), given, key=key, interactive=interactive
    )
    if fresh and given.on_completion == "delete":
        task = asyncio.create_task(_remove_after(gate, found))
        pending: set[asyncio.Task[None]] = gate.extra.setdefault(_Removals, set())
        pending.add(task)
        task.add_done_callback(pending.discard)
    return found


class _Removals:
    """Key of the threads of this process that go when their run has ended."""


async def _remove_after(gate: Gateway, found: Found) -> None:
    submissions = gate.runtime.submissions
    with contextlib.suppress(NotFoundError, ConflictError):
        await submissions.wait(found.thread.thread_key, found.run.run_id)
        await asyncio.sleep(LINGER_SECONDS)  # readers see the end first
        await submissions.delete_thread(found.thread.user_id, found.thread.thread_id)


LINGER_SECONDS = 5.0
"""Seconds for which a thread that goes with its run can still be read."""
