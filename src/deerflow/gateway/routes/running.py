"""What the routes of runs share: handing in, streaming and waiting."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

from fastapi import Depends, Header, Query
from starlette.responses import Response

from deerflow.errors import ConflictError, DeerFlowError, ForbiddenError, NotFoundError
from deerflow.gateway.deps import Caller, Gateway, Open, Permission, needs, signed_in
from deerflow.gateway.frames.encode import FrameCache, body
from deerflow.gateway.frames.follow import BEAT_SECONDS, Asked, Frames
from deerflow.gateway.frames.modes import Wanted, wanted
from deerflow.gateway.frames.values import States
from deerflow.gateway.routes.bodies import Ident, RunBody
from deerflow.gateway.sse import EVENT_STREAM, Lasting
from deerflow.gateway.wire import LEAD
from deerflow.runtime.wire_runs import request_of
from deerflow.storage.protocol import RunRow, ThreadRow

WEB_MODES = ("values", "messages-tuple", "updates", "custom")
"""Modes of a reader who names none when it joins."""


@dataclass(frozen=True, slots=True)
class Found:
    """A run with its thread.

    Attributes:
        thread: the thread.
        run: the run.
        first: a seq before what its stream begins with; None for all of the run.
    """

    thread: ThreadRow
    run: RunRow
    first: int | None = None

    @property
    def names(self) -> tuple[str, str, str]:
        """User, thread and run, as `Submissions` asks for them."""
        return self.thread.user_id, self.thread.thread_id, self.run.run_id

    @property
    def location(self) -> str:
        """Its path below the API."""
        thread = quote(self.thread.thread_id, safe="")
        return f"/threads/{thread}/runs/{self.run.run_id}"

    @property
    def content_location(self) -> str:
        """Where clients read the run's id from."""
        return f"/api{self.location}"


@dataclass(frozen=True, slots=True)
class Streaming:
    """How a reader wants its stream: modes, Last-Event-ID, and whether leaving stops the run."""

    wanted: Wanted
    last: str | None = None
    cancel: bool = False


def own_run(permission: Permission) -> Callable[..., Awaitable[Found]]:
    """A dependency that gives the run named in the path, when the caller may.

    Raises (in the request):
        NotFoundError: run or thread is unknown or someone else's.
    """

    async def find(
        thread_id: Ident,
        run_id: Ident,
        gate: Open,
        who: Caller = needs(permission),  # noqa: B008  (annotations see no local names)
    ) -> Found:
        return Found(*await gate.runtime.submissions.run(who.user_id, thread_id, run_id))

    return find


RunRead = Annotated[Found, Depends(own_run("runs:read"))]
RunCancel = Annotated[Found, Depends(own_run("runs:cancel"))]
RunDelete = Annotated[Found, Depends(own_run("threads:delete"))]


async def joining(
    who: Annotated[Caller, Depends(signed_in)],
    last: Annotated[str | None, Header(alias="Last-Event-ID")] = None,
    stream_mode: Annotated[list[str] | None, Query()] = None,
    cancel_on_disconnect: bool = False,
) -> Streaming:
    """How somebody follows a run that is there.

    Raises (in the request):
        ForbiddenError: leaving shall stop it, which the caller may not.
    """
    if cancel_on_disconnect and not who.may("runs:cancel"):
        raise ForbiddenError("This needs the permission runs:cancel.")
    modes = [mode for mode in stream_mode or () if mode]  # Python's SDK sends an empty one for None
    return Streaming(asked_for(modes, default=WEB_MODES), last, cancel=cancel_on_disconnect)


Joining = Annotated[Streaming, Depends(joining)]


def asked_for(
    modes: str | Iterable[str] | None, *, subgraphs: bool = False, default: Iterable[str] = ()
) -> Wanted:
    """Modes of a reader. Raises UsageError for an unknown one."""
    return wanted(modes or tuple(default), subgraphs=subgraphs)


def frames_of(gate: Gateway) -> Frames:
    """The maker of streams of this process; all readers share its cache."""
    if Frames not in gate.extra:
        runtime = gate.runtime
        cache = gate.extra.setdefault(FrameCache, FrameCache())
        gate.extra[Frames] = Frames(runtime.harness.storage, runtime.histories, cache)
    return gate.extra[Frames]


async def submit(
    gate: Gateway,
    who: Caller,
    thread_id: str | None,
    given: RunBody,
    *,
    key: str | None = None,
    interactive: bool = True,
) -> Found:
    """Hand in a run, or the answer that a paused one goes on with.

    Raises:
        UsageError, NotFoundError, ConflictError: see `Submissions.submit`.
    """
    runtime = gate.runtime
    threads, submissions = runtime.harness.storage.threads, runtime.submissions
    before = await threads.get(who.user_id, thread_id) if thread_id else None
    run = (await settled(gate, who, given)).client_run()
    config = runtime.harness.parts.config
    request = request_of(run, user_id=who.user_id, thread_id=thread_id, config=config)
    options = given.options(key=key, interactive=interactive)
    if run.resumes:
        submitted = await submissions.resume(request, run.answer, options)
    else:
        submitted = await submissions.submit(request, options)
    thread = await threads.by_key(submitted.run.thread_key)
    if thread is None:
        raise NotFoundError("The thread is gone.")
    fresh = submitted.created or run.resumes
    first = (before.last_seq if before is not None else 0) if fresh else None
    return Found(thread, submitted.run, first)


async def settled(gate: Gateway, who: Caller, given: RunBody) -> RunBody:
    """The request with what a stored assistant brings along; the request's own words count more."""
    if given.assistant_id in (None, "", LEAD):
        return given
    documents = gate.runtime.harness.storage.documents
    versions = await documents.assistant_versions(who.user_id, given.assistant_id)
    if not versions:
        return given
    stored = versions[0].data
    brought = {
        "assistant_id": stored.get("graph_id", LEAD),
        "config": {**stored.get("config", {}), **(given.config or {})},
        "context": {**stored.get("context", {}), **(given.context or {})},
    }
    return given.model_copy(update=brought)


async def stream_of(gate: Gateway, found: Found, how: Streaming) -> Response:
    """The response that follows a run."""
    asked = Asked(found.thread, found.run, how.wanted, how.last, found.first)
    modes = "&".join(f"stream_mode={mode}" for mode in sorted(how.wanted.modes))
    return Lasting(
        frames_of(gate).follow(asked),
        gate.stopping,
        headers={
            "Content-Location": found.content_location,
            "Location": f"{found.location}/stream?{modes}",
        },
        media_type=EVENT_STREAM,
        gone=stopper(gate, found) if how.cancel else None,
    )


def waited(gate: Gateway, found: Found, *, cancel: bool = False) -> Response:
    """The response that tells the values after a run; blanks keep the connection open meanwhile."""
    return Lasting(
        _values(gate, found),
        gate.stopping,
        headers={
            "Content-Location": found.content_location,
            "Location": f"{found.location}/join",
        },
        media_type="application/json",
        gone=stopper(gate, found) if cancel else None,
        failed=lambda error: body({"__error__": _told(error.code, error.message)}),
    )


def stopper(gate: Gateway, found: Found) -> Callable[[], Awaitable[object]]:
    """What stops a run when its reader has left."""

    async def stop() -> None:
        with contextlib.suppress(ConflictError, NotFoundError):
            await gate.runtime.submissions.cancel(*found.names)

    return stop


async def _values(gate: Gateway, found: Found) -> AsyncGenerator[bytes]:
    runtime = gate.runtime
    waiting = asyncio.create_task(
        runtime.submissions.wait(found.thread.thread_key, found.run.run_id)
    )
    try:
        while not (await asyncio.wait({waiting}, timeout=BEAT_SECONDS))[0]:
            yield b"\n"
        run = waiting.result()
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    if run.error:
        problem = _told(str(run.error.get("code")), str(run.error.get("message")))
        yield body({"__error__": problem})
        return
    storage = runtime.harness.storage
    states = States(storage, runtime.histories, gate.extra.setdefault(FrameCache, FrameCache()))
    fresh = await storage.threads.by_key(found.thread.thread_key) or found.thread
    yield await states.ended(fresh, run.run_id, fresh.last_seq)


def _told(code: str, message: str) -> dict[str, str]:
    return {"error": code, "message": message}


def told(error: DeerFlowError) -> dict[str, str]:
    """An error as a value that clients find in a result."""
    return _told(error.code, error.message)
