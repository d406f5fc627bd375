"""The event stream of the LangChain agent protocol (v3 of the SDKs), made of the frames of runs.

Shapes: the package `langchain_protocol`. An event's `seq` is that of our log, `event_id` the id of
the frame with the place in it; both are the same whenever the log is read again, so that clients
that come back leave out what they have.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from deerflow.gateway.frames.encode import body, position
from deerflow.gateway.frames.modes import Wanted, of_modes
from deerflow.gateway.frames.writing import Messages
from deerflow.storage.protocol import RunRow

CHANNELS = {
    "values": "values",
    "updates": "updates",
    "messages": "messages-tuple",
    "tools": "tools",
    "tasks": "tasks",
    "checkpoints": "checkpoints",
    "custom": "custom",
}
"""Channel → stream mode that it is made of. `lifecycle` and `input` are made of every run's end."""

TERMINAL = {"error": "failed", "timeout": "failed", "interrupted": "interrupted"}
"""Status of a run → its last lifecycle event, where that is not `completed`."""

Namespace = list[str]


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a client follows.

    Attributes:
        channels: names out of CHANNELS, `lifecycle`, `input`, `custom:NAME`.
        namespaces: prefixes; None for all.
        depth: levels below a prefix, None for all.
    """

    channels: frozenset[str]
    namespaces: tuple[Namespace, ...] | None = None
    depth: int | None = None

    def wanted(self) -> Wanted:
        """Modes that its channels are made of."""
        names = [name.partition(":")[0] for name in self.channels]
        modes = {CHANNELS[name] for name in names if name in CHANNELS}
        if "input" in self.channels:
            modes.add("values")  # what waits stands in the last state
        return of_modes(modes, subgraphs=True)

    def takes(self, event: dict[str, Any]) -> bool:
        """Whether an event is for it."""
        method, params = event["method"], event["params"]
        channel = "input" if method == "input.requested" else method
        name = params["data"].get("name") if method == "custom" else None
        if channel not in self.channels and f"{channel}:{name}" not in self.channels:
            return False
        if not self.namespaces:
            return True
        return any(_below(params["namespace"], prefix, self.depth) for prefix in self.namespaces)


def _below(namespace: Namespace, prefix: Sequence[str], depth: int | None) -> bool:
    if len(prefix) > len(namespace):
        return False
    for wanted, found in zip(prefix, namespace, strict=False):
        if wanted not in (found, found.partition(":")[0]):
            return False
    return depth is None or len(namespace) - len(prefix) <= depth


StatusOf = Callable[[str], Awaitable[RunRow | None]]


class Protocol:
    """Turns the frames of runs into protocol events for one subscription.

    Args:
        subscription: of the client.
        run_of: the row of a run, for how it has ended.
        encode: an event as bytes.
    """

    def __init__(
        self,
        subscription: Subscription,
        run_of: StatusOf,
        encode: Callable[[dict[str, Any]], bytes],
    ) -> None:
        self._subscription = subscription
        self._run_of = run_of
        self._encode = encode

    async def of_run(self, run: RunRow, chunks: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        """Events of one run, made of its frames."""
        begun, messages = False, Messages(run.run_id)
        error: dict[str, Any] = {}
        async for chunk in chunks:
            out: list[bytes] = []
            for name, data, ident in frames_in(chunk):
                if not begun:
                    begun = True
                    head = {"event": "started", "graph_name": "lead_agent"}
                    self._add(out, ("lifecycle", [], head), 0, f"{run.run_id}:started")
                if name == "error":
                    error = data
                elif name == "end":
                    await self._ended(out, run, error, ident)
                else:
                    self._events(out, messages, (name, data, ident))
            yield b"".join(out) if out else b": heartbeat\n\n"

    def _events(self, out: list[bytes], messages: Messages, frame: tuple[str, Any, str]) -> None:
        name, data, ident = frame
        place = position(ident)
        seq = place.seq if place is not None else 0
        if place is not None and (place.rank >= 0 or name != "messages"):
            ident = place.event  # whatever of a message this reader has
        for number, event in enumerate(_of_frame(name, data, messages)):
            self._add(out, event, seq, f"{messages.run_id}:{ident}:{name}:{number}")

    def _add(
        self, out: list[bytes], event: tuple[str, Namespace, Any], seq: int, ident: str
    ) -> None:
        method, namespace, data = event
        params = {"namespace": namespace, "timestamp": int(time.time() * 1000), "data": data}
        whole: dict[str, Any] = {"type": "event", "event_id": ident, "method": method}
        if seq:
            whole["seq"] = seq
        whole["params"] = params
        if self._subscription.takes(whole):
            out.append(self._encode(whole))

    async def _ended(
        self, out: list[bytes], run: RunRow, error: dict[str, Any], ident: str
    ) -> None:
        row = await self._run_of(run.run_id)
        place = position(ident)
        data: dict[str, Any] = {"event": "completed", "graph_name": "lead_agent"}
        if row is not None:
            data["event"] = TERMINAL.get(row.status, "completed")
        if error:
            data["error"] = error.get("message")
        seq = place.seq if place is not None else 0
        self._add(out, ("lifecycle", [], data), seq, f"{run.run_id}:{ident}:end")


def frames_in(chunk: bytes) -> Iterator[tuple[str, Any, str]]:
    """(event, data, id) of the frames of a chunk; comments are left out."""
    for text in chunk.split(b"\n\n"):
        lines = [line.partition(b": ") for line in text.split(b"\n") if line]
        fields = {name: value for name, _, value in lines}
        if b"event" in fields:
            data = orjson.loads(fields[b"data"])
            yield fields[b"event"].decode(), data, fields.get(b"id", b"").decode()


def sse(event: dict[str, Any]) -> bytes:
    """A protocol event as a server-sent one."""
    return b"event: message\nid: %b\ndata: %b\n\n" % (event["event_id"].encode(), body(event))


def _of_frame(name: str, data: Any, messages: Messages) -> Iterable[tuple[str, Namespace, Any]]:
    name, _, child = name.partition("|")
    namespace = [child] if child else []
    if name == "messages":
        return [("messages", namespace, event) for event in messages.events(data[0], child)]
    if name == "updates":
        return [(name, namespace, {"node": k, "values": v}) for k, v in data.items()]
    if name == "values":
        found: list[tuple[str, Namespace, Any]] = [
            ("input.requested", [], _asked(pause)) for pause in data.pop("__interrupt__", ())
        ]
        return [*found, (name, [], data)]
    made = _MADE.get(name)
    return [(name, [], made(data))] if made is not None else []


def _asked(pause: dict[str, Any]) -> dict[str, Any]:
    return {"interrupt_id": pause["id"], "payload": pause["value"], "value": pause["value"]}


def _custom(data: dict[str, Any]) -> dict[str, Any]:
    return {"name": data["type"], "payload": data}


def _task(data: dict[str, Any]) -> dict[str, Any]:
    return data


def _tool(data: dict[str, Any]) -> dict[str, Any]:
    ident, kind = data["toolCallId"], data["event"]
    if kind == "on_tool_start":
        named = {"tool_name": data["name"], "input": data["input"]}
        return {"event": "tool-started", "tool_call_id": ident, **named}
    if kind == "on_tool_error":
        return {"event": "tool-error", "tool_call_id": ident, "message": str(data["error"])}
    return {"event": "tool-finished", "tool_call_id": ident, "output": data["output"]}


def _checkpoint(data: dict[str, Any]) -> dict[str, Any]:
    metadata: dict[str, Any] = data["metadata"]
    place: dict[str, Any] = data["config"]["configurable"] or {}
    before: dict[str, Any] = data["parent_config"]["configurable"] or {}
    found: dict[str, Any] = {
        "id": place.get("checkpoint_id"),
        "step": metadata.get("step", -1),
        "source": metadata.get("source", "loop"),
    }
    parent = before.get("checkpoint_id")
    return {**found, "parent_id": parent} if parent else found


_MADE: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "custom": _custom,
    "tools": _tool,
    "tasks": _task,
    "checkpoints": _checkpoint,
}
