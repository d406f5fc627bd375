"""The agent protocol of the SDKs' newer streams: commands, and events over SSE or a WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Header, Query, Response, WebSocket, WebSocketDisconnect
from pydantic import Field, ValidationError

from deerflow.errors import DeerFlowError, UsageError
from deerflow.gateway.deps import Caller, Gateway, Open, ThreadRead, needs
from deerflow.gateway.frames.encode import body
from deerflow.gateway.frames.modes import THREAD_MODES, of_modes, wanted
from deerflow.gateway.frames.protocol import CHANNELS, Protocol, Subscription, sse
from deerflow.gateway.frames.thread import Following, ThreadFrames
from deerflow.gateway.routes.bodies import Body, Ident, Json
from deerflow.gateway.routes.commanding import Commands, Freshly, failed
from deerflow.gateway.routes.running import frames_of
from deerflow.gateway.sse import Lasting
from deerflow.storage.protocol import ThreadRow

router = APIRouter(tags=["agent protocol"])

Creator = Annotated[Caller, needs("runs:create")]
CHANNEL = "channels[] are: " + ", ".join((*CHANNELS, "lifecycle", "input", "custom:NAME")) + "."


class CommandBody(Body):
    """A command of the agent protocol."""

    id: Annotated[int, Field(ge=0, le=2**53)]
    method: Annotated[str, Field(max_length=64)]
    params: Json = Field(default_factory=dict)


class EventsBody(Body):
    """What of a thread is followed, from which `seq` on."""

    channels: Annotated[list[str], Field(max_length=64)]
    namespaces: list[list[str]] | None = None
    depth: Annotated[int, Field(ge=0, le=64)] | None = None
    since: Annotated[int, Field(ge=0, le=2**53)] | None = None

    def subscription(self) -> Subscription:
        """The subscription. Raises UsageError for an unknown channel."""
        for name in self.channels:
            if name.partition(":")[0] not in (*CHANNELS, "lifecycle", "input"):
                raise UsageError(f"There is no channel {name[:80]!r}.", cure=CHANNEL)
        places = tuple(self.namespaces) if self.namespaces else None
        return Subscription(frozenset(self.channels), places, self.depth)


@router.post("/threads/{thread_id}/commands", summary="A command of the agent protocol")
async def command(thread_id: Ident, given: CommandBody, gate: Open, who: Creator) -> Any:
    """`run.start`, `input.respond`, `input.inject`, `state.get`, `state.fork`, ….

    What is wrong with a command is told in its answer; a thread that is not there by 404.
    """
    return await Commands(gate, who, thread_id).carry_out(given.id, given.method, given.params)


@router.post("/threads/{thread_id}/stream/events", summary="Follow a thread by the agent protocol")
async def events(thread: ThreadRead, given: EventsBody, gate: Open) -> Response:
    """Server-sent events of what runs now and of every further run, without an end."""
    return Lasting(_events(gate, thread, given), gate.stopping)


@router.get("/threads/{thread_id}/stream", summary="Follow a thread")
async def stream(
    thread: ThreadRead,
    gate: Open,
    last: Annotated[str | None, Header(alias="Last-Event-ID")] = None,
    stream_mode: Annotated[list[str] | None, Query()] = None,
) -> Response:
    """Frames of what runs now and of every further run, without an end.

    Modes: run_modes, lifecycle, state_update, or those of a run.
    """
    modes = set[str]()
    for name in filter(None, stream_mode or ("run_modes",)):
        modes |= set(THREAD_MODES[name]) if name in THREAD_MODES else wanted(name).modes
    after = None if last in ("", "-1") else last
    since = 0 if last == "-1" else None
    following = Following(thread, of_modes(modes), after, since, ends=True)
    threads = ThreadFrames(gate.runtime.harness.storage, frames_of(gate))
    return Lasting(threads.follow(following), gate.stopping)


def _events(
    gate: Gateway, thread: ThreadRow, given: EventsBody, *, socket: bool = False
) -> AsyncGenerator[bytes]:
    """Encoded events of a subscription."""
    subscription = given.subscription()
    storage = gate.runtime.harness.storage
    protocol = Protocol(subscription, storage.threads.run, body_of if socket else sse)
    freshly: Freshly = gate.extra.setdefault(Freshly, Freshly())
    watches = {"lifecycle", "input"} >= subscription.channels
    run_id = None if given.since is not None else freshly.run_of(thread.thread_key, watch=watches)
    following = Following(
        thread, subscription.wanted(), since=given.since, run_id=run_id, ends=True
    )
    return ThreadFrames(storage, frames_of(gate)).follow(following, protocol.of_run)


def body_of(event: dict[str, Any]) -> bytes:
    """An event for a socket; a zero byte ends it, as no JSON has one."""
    return body(event) + b"\x00"


@router.websocket("/threads/{thread_id}/stream/events")
async def socket(websocket: WebSocket, thread_id: Ident, gate: Open, who: Creator) -> None:
    """Commands and events over one connection; closed with 4404 when there is no such thread."""
    await websocket.accept()
    thread = await gate.runtime.harness.storage.threads.get(who.user_id, thread_id)
    if thread is None:
        await websocket.close(4404)
        return
    talk = _Talk(websocket, gate, thread, who)
    closing = asyncio.create_task(gate.stopping.wait())
    listening = asyncio.create_task(talk.listen())
    try:
        await asyncio.wait({closing, listening}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (closing, listening, *talk.tasks):
            task.cancel()
        await asyncio.gather(closing, listening, *talk.tasks, return_exceptions=True)
    with contextlib.suppress(RuntimeError, WebSocketDisconnect):  # the client has closed it
        await websocket.close(1001)


class _Talk:
    """One connection: its commands, and the tasks that send events."""

    def __init__(self, websocket: WebSocket, gate: Gateway, thread: ThreadRow, who: Caller) -> None:
        self.tasks: list[asyncio.Task[None]] = []
        self._websocket = websocket
        self._gate = gate
        self._thread = thread
        self._commands = Commands(gate, who, thread.thread_id)

    async def listen(self) -> None:
        """Answer commands until the client leaves."""
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                answer = await self._answer(await self._websocket.receive_text())
                await self._websocket.send_text(orjson.dumps(answer).decode())

    async def _answer(self, text: str) -> dict[str, Any]:
        try:
            given = CommandBody.model_validate_json(text)
            if given.method == "subscription.subscribe":
                wish = EventsBody.model_validate(given.params)
                chunks = _events(self._gate, self._thread, wish, socket=True)
                self.tasks.append(asyncio.create_task(self._send(chunks)))
                result = {"subscription_id": str(len(self.tasks))}
                return {"type": "success", "id": given.id, "result": result}
            if given.method == "subscription.unsubscribe":
                number = str(given.params.get("subscription_id", ""))
                if number.isdigit() and 0 < int(number) <= len(self.tasks):
                    self.tasks[int(number) - 1].cancel()
                return {"type": "success", "id": given.id, "result": {}}
            return await self._commands.carry_out(given.id, given.method, given.params)
        except ValidationError as error:
            return failed(None, "invalid_argument", str(error.errors()[0]["msg"]))
        except DeerFlowError as error:
            return failed(None, "invalid_argument", error.message)

    async def _send(self, chunks: AsyncGenerator[bytes]) -> None:
        async with contextlib.aclosing(chunks):
            async for chunk in chunks:
                for event in chunk.split(b"\x00"):
                    if event.startswith(b"{"):
                        await self._websocket.send_text(event.decode())
