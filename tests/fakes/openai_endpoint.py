"""A small chat-completions endpoint on loopback that behaves as told: streams, stalls, refuses.

    turns = (Turn(text="hello"), Turn(status=429, headers={"retry-after": "2"}))
    async with OpenAIEndpoint(*turns) as endpoint:
        model = OpenAIChatModel(model="m", base_url=endpoint.base_url, api_key="k")

Turns are played in order; when they are used up `endpoint.default` is played. `respond=` chooses a
turn from the request body instead. `demand=` is asked before each turn and refuses the request with
400 when it returns a reason.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from aiohttp import web

Body = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One tool call of a reply; `args` text is sent as it stands (malformed JSON is allowed)."""

    name: str
    args: Any = field(default_factory=dict)
    id: str | None = ""
    """"" makes a new id, None sends none, other text is sent as it stands."""
    signature: str | None = None

    def wire(self, number: int) -> Body:
        text = self.args if isinstance(self.args, str) else json.dumps(self.args)
        call: Body = {
            "type": "function",
            "function": {"name": self.name, "arguments": text},
        }
        if self.id is not None:
            call["id"] = self.id or f"call_{number:06d}"
        if self.signature is not None:
            call["extra_content"] = {"google": {"thought_signature": self.signature}}
        return call


Stall = Literal["headers", "first", "middle", "comments"]
Dialect = Literal["openai", "no_index", "whole", "object", "same_index", "empty_ids"]


@dataclass(frozen=True)
class Turn:
    """What the endpoint does with one request.

    Attributes:
        text: visible text; sent in pieces of `piece` characters (or as the given list of pieces).
        reasoning: sent as `reasoning_key` before the text.
        calls: tool calls, in `dialect`: "openai" (index, arguments in two pieces), "no_index",
            "whole" (all at once without index), "object" (arguments as an object), "same_index"
            (every call has index 0), "empty_ids" (later pieces carry an empty id).
        status: other than 200 answers `error` as JSON with that status and `headers`.
        error_in_stream: an error object sent as a frame after the text.
        stall: "headers" never answers, "first" sends the status line only, "middle" stops after
            half of the frames, "comments" sends only SSE comments. A stall ends when the client
            leaves or `endpoint.release` is set.
        cut: closes the connection after half of the frames.
        frames: raw bytes, written one by one instead of all that (separate network writes).
        done: whether `[DONE]` is sent.
        gap: seconds between frames.
    """

    text: str | Sequence[str] = ""
    calls: Sequence[Call] = ()
    reasoning: str = ""
    reasoning_key: str = "reasoning_content"
    usage: Body | None = field(
        default_factory=lambda: {
            "prompt_tokens": 11,
            "completion_tokens": 7,
            "total_tokens": 18,
        }
    )
    finish: str | None = None
    status: int = 200
    error: Body | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    error_in_stream: Body | None = None
    stall: Stall | None = None
    cut: bool = False
    piece: int = 4
    dialect: Dialect = "openai"
    frames: Sequence[bytes] | None = None
    done: bool = True
    gap: float = 0.0

    @property
    def pieces(self) -> list[str]:
        if not isinstance(self.text, str):
            return list(self.text)
        return [self.text[i : i + self.piece] for i in range(0, len(self.text), self.piece)]

    @property
    def finish_reason(self) -> str:
        return self.finish or ("tool_calls" if self.calls else "stop")


@dataclass(frozen=True)
class Received:
    """One recorded request."""

    body: Body
    raw: bytes
    headers: dict[str, str]

    @property
    def messages(self) -> list[Body]:
        return self.body["messages"]


class OpenAIEndpoint:
    """Async context manager; `base_url` is valid inside. All requests stand in `requests`."""

    def __init__(
        self,
        *turns: Turn,
        default: Turn | None = None,
        respond: Callable[[Body], Turn] | None = None,
        demand: Callable[[Body], str | None] | None = None,
    ) -> None:
        self.turns: list[Turn] = list(turns)
        self.default = default or Turn(text="ok")
        self.respond = respond
        self.demand = demand
        self.requests: list[Received] = []
        self.release = asyncio.Event()
        self._quiet = asyncio.Event()
        self.active = 0
        self.peak = 0
        self.base_url = ""
        self._made = 0
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.base_url = f"http://{host}:{port}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.release.set()
        assert self._runner is not None
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        body: Body = json.loads(raw)
        self.requests.append(Received(body, raw, dict(request.headers)))
        self.active += 1
        self.peak = max(self.peak, self.active)
        try:
            return await self._play(request, body)
        finally:
            self.active -= 1
            if not self.active:
                self._quiet.set()

    async def idle(self) -> None:
        """Wait until no request is being answered."""
        if self.active:
            self._quiet.clear()
            await asyncio.wait_for(self._quiet.wait(), 10)

    async def _play(self, request: web.Request, body: Body) -> web.StreamResponse:
        reason = self.demand(body) if self.demand else None
        if reason is not None:
            return web.json_response(_error(reason, "invalid_request_error"), status=400)
        if self.respond is not None:
            turn = self.respond(body)
        else:
            turn = self.turns.pop(0) if self.turns else self.default
        if turn.stall == "headers":
            await self.release.wait()
        if turn.status != 200:
            return web.json_response(
                turn.error or _error(f"status {turn.status}", "error"),
                status=turn.status,
                headers=turn.headers,
            )
        if not body.get("stream"):
            return web.json_response(self._whole(turn, body), headers=turn.headers)
        return await self._stream(request, turn, body)

    async def _stream(self, request: web.Request, turn: Turn, body: Body) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream", **turn.headers})
        await response.prepare(request)
        frames = turn.frames if turn.frames is not None else self._frames(turn, body)
        with suppress(ConnectionResetError):  # the client has left
            await self._write(request, response, turn, frames)
        return response

    async def _write(
        self,
        request: web.Request,
        response: web.StreamResponse,
        turn: Turn,
        frames: Sequence[bytes],
    ) -> None:
        if turn.stall == "first":
            await self.release.wait()
        if turn.stall == "comments":
            while not self.release.is_set():
                await response.write(b": keep-alive\n\n")
                await asyncio.sleep(0.01)
        for number, frame in enumerate(frames):
            if number == max(1, len(frames) // 2):
                if turn.stall == "middle":
                    await self.release.wait()
                if turn.cut:
                    assert request.transport is not None
                    request.transport.close()
                    return
            if turn.gap or turn.frames is not None:
                await asyncio.sleep(turn.gap)
            await response.write(frame)
        await response.write_eof()

    def _calls(self, turn: Turn) -> list[Body]:
        wired: list[Body] = []
        for call in turn.calls:
            self._made += 1
            wired.append(call.wire(self._made))
        return wired

    def _frames(self, turn: Turn, body: Body) -> list[bytes]:
        head = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": body["model"],
        }

        def frame(delta: Body, finish: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            return _sse({**head, "choices": [choice]})

        frames = [frame({"role": "assistant", "content": "" if turn.text else None})]
        if turn.reasoning:
            half = len(turn.reasoning) // 2
            for part in (turn.reasoning[:half], turn.reasoning[half:]):
                frames.append(frame({turn.reasoning_key: part}))
        frames += [frame({"content": piece}) for piece in turn.pieces]
        frames += [frame({"tool_calls": part}) for part in _split(self._calls(turn), turn.dialect)]
        if turn.error_in_stream is not None:
            return [*frames, _sse(turn.error_in_stream)]
        frames.append(frame({}, turn.finish_reason))
        if turn.usage and (body.get("stream_options") or {}).get("include_usage"):
            frames.append(_sse({**head, "choices": [], "usage": turn.usage}))
        return [*frames, b"data: [DONE]\n\n"] if turn.done else frames

    def _whole(self, turn: Turn, body: Body) -> Body:
        message: Body = {"role": "assistant", "content": "".join(turn.pieces) or None}
        if turn.reasoning:
            message[turn.reasoning_key] = turn.reasoning
        if turn.calls:
            message["tool_calls"] = self._calls(turn)
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": turn.finish_reason}],
            "usage": turn.usage,
        }


def needs_reasoning(body: Body) -> str | None:
    """A demand: each assistant message with tool calls carries its `reasoning_content`."""
    for number, message in enumerate(body["messages"]):
        if message.get("tool_calls") and not message.get("reasoning_content"):
            return f"messages[{number}]: reasoning_content of a tool-calling turn is missing"
    return None


def needs_signatures(signatures: Mapping[str, str]) -> Callable[[Body], str | None]:
    """A demand: each call of tool `name` carries `signatures[name]` unchanged."""

    def demand(body: Body) -> str | None:
        for message in body["messages"]:
            for call in message.get("tool_calls") or ():
                name = call["function"]["name"]
                google = (call.get("extra_content") or {}).get("google") or {}
                if name in signatures and google.get("thought_signature") != signatures[name]:
                    return f"call {name} has no thought_signature"
        return None

    return demand


def legal_transcript(body: Body) -> str | None:
    """A demand: ids unique, each call answered exactly once, in call order, directly after it."""
    seen: set[str] = set()
    waiting: list[str] = []
    for number, message in enumerate(body["messages"]):
        if message["role"] == "tool":
            if not waiting or message["tool_call_id"] != waiting[0]:
                return f"messages[{number}]: unexpected tool result {message['tool_call_id']}"
            waiting.pop(0)
            continue
        if waiting:
            return f"messages[{number}]: calls {waiting} have no result"
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
        if len(set(waiting)) != len(waiting) or seen & set(waiting) or "" in waiting:
            return f"messages[{number}]: repeated or empty call id"
        seen |= set(waiting)
    return f"calls {waiting} have no result" if waiting else None


def _split(calls: list[Body], dialect: Dialect) -> list[list[Body]]:
    parts: list[list[Body]] = []
    for index, call in enumerate(calls):
        function = call["function"]
        if dialect == "whole":
            parts.append([call])
        elif dialect == "object":
            parsed = json.loads(function["arguments"])
            parts.append([{**call, "function": {**function, "arguments": parsed}}])
        elif dialect == "same_index":
            parts.append([{**call, "index": 0}])
        else:
            text, half = function["arguments"], len(function["arguments"]) // 2
            first = {
                **call,
                "index": index,
                "function": {**function, "arguments": text[:half]},
            }
            later: Body = {"index": index, "function": {"arguments": text[half:]}}
            if dialect == "empty_ids":
                later |= {"id": "", "type": "function"}
                later["function"]["name"] = ""
            if dialect == "no_index":
                first.pop("index")
                later.pop("index")
            parts += [[first], [later]]
    return parts


def _sse(value: Body) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def _error(message: str, kind: str) -> Body:
    return {"error": {"message": message, "type": kind, "code": None}}
