"""A client of a run's stream whose connection breaks at any byte, and what it must have read."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import orjson

from deerflow.events import Event
from deerflow.gateway.frames.encode import body, position
from deerflow.gateway.frames.parts import CUT, updates
from fakes.streams import FOUR, Sent, frames_of

EVENTS = ["events", "messages-tuple"]
AWAY = (502, 503)
"""What a server says that opens or closes."""
PAUSE = 0.05
"""Seconds before the next try; the server may be away."""


async def ask(
    urls: Sequence[str], dice: random.Random, method: str, path: str, **request: Any
) -> httpx.Response:
    """An answer of one of the servers; asked again while none is there."""
    async with asyncio.timeout(60), httpx.AsyncClient(timeout=10) as client:
        while True:
            with contextlib.suppress(httpx.TransportError):
                url = f"{dice.choice(urls)}{path}"
                answer = await client.request(method, url, **request)
                if answer.status_code not in AWAY:
                    return answer
            await asyncio.sleep(PAUSE)


@dataclass
class StreamClient:
    """Reads a run's stream from any of several servers, and goes on where it was cut off.

    Attributes:
        urls: of the servers; each may be away for a while.
        path: of the run.
        modes: of the stream.
        dice: where the connection breaks.
        frames: what was read, whole frames alone.
        last: id of the last frame that had one.
        connections: how many it took.
    """

    urls: Sequence[str]
    path: str
    modes: Sequence[str]
    dice: random.Random
    frames: list[Sent] = field(default_factory=list[Sent])
    last: str = "-1"
    connections: int = 0

    async def follow(self) -> list[Sent]:
        """Every frame until `end`."""
        async with httpx.AsyncClient(timeout=20) as client:
            while not self.frames or self.frames[-1].event != "end":
                with contextlib.suppress(httpx.TransportError):
                    await self._read(client)
                await asyncio.sleep(PAUSE)
        return self.frames

    async def _read(self, client: httpx.AsyncClient) -> None:
        """One connection, cut after some bytes, in the middle of a frame or not."""
        left, buffer = self.dice.choice((500, 3_000, 30_000)) * self.dice.random(), b""
        url = f"{self.dice.choice(self.urls)}{self.path}/stream"
        asked = client.stream(
            "GET", url, params={"stream_mode": self.modes}, headers={"Last-Event-ID": self.last}
        )
        async with asked as answer:
            if answer.status_code in AWAY:
                return
            assert answer.status_code == 200, answer.status_code
            self.connections += 1
            async for chunk in answer.aiter_raw():
                buffer += chunk[: max(0, int(left))]
                left -= len(chunk)
                whole, _, buffer = buffer.rpartition(b"\n\n")
                self._take(frames_of(whole))
                if left <= 0:
                    return

    def _take(self, frames: list[Sent]) -> None:
        self.frames += frames
        self.last = next((frame.id for frame in reversed(frames) if frame.id), self.last)


def misread(client: StreamClient, log: Sequence[Event]) -> list[str]:
    """What is wrong with what a client has read of a run that is all of its thread's log."""
    frames = client.frames
    names = Counter(frame.event for frame in frames)
    wrong: list[str] = []
    heads = names["metadata"]  # it has no id: who was cut off behind it is told again
    if not heads or any(frame.event != "metadata" for frame in frames[:heads]):
        wrong.append(f"{heads} frames of metadata, not all at the beginning")
    if frames[-1].event != "end" or names["end"] != 1:
        wrong.append(f"{names['end']} ends, the last frame is {frames[-1].event}")
    wrong += [f"a frame {name}" for name in ("gap", "error") if names[name]]
    seqs = [
        frame.data["metadata"]["seq"]
        for frame in frames
        if frame.event == "events" and frame.data["event"] != "on_chat_model_stream"
    ]
    if "events" in client.modes and seqs != [event.seq for event in log]:
        wrong.append(f"events {seqs}")
    told = [frame.data for frame in frames if frame.event == "updates"]
    due = [orjson.loads(body(update)) for event in log if (update := updates(event))]
    if "updates" in client.modes and told != due:
        wrong.append(f"{len(told)} updates instead of {len(due)}, or others")
    return wrong + _texts(frames, log)


def _texts(frames: Sequence[Sent], log: Sequence[Event]) -> list[str]:
    """Text comes without holes and not twice; what was not finished is marked as cut off."""
    wrong: list[str] = []
    texts: dict[str, str] = {}
    cut: set[str] = set()
    chunks = [(frame, frame.data[0]) for frame in frames if frame.event == "messages"]
    for frame, chunk in chunks:
        ident, place = chunk["id"], position(frame.id)
        texts[ident] = texts.get(ident, "") + chunk["content"]
        told = place is not None and place.rank < 0 and place.message_id == ident
        if place is None or (told and place.offset != len(texts[ident])):
            wrong.append(f"message {ident} has {len(texts[ident])} characters at {frame.id}")
        if ident in cut:
            wrong.append(f"message {ident} goes on after it was cut off")
        if CUT in chunk.get("additional_kwargs", ()):
            cut.add(ident)
    messages = [event.payload["message"] for event in log if event.type == "message"]
    finished = {m["id"]: m["content"] for m in messages if m["type"] in ("ai", "tool")}
    for ident in finished.keys() | texts.keys() | cut:
        if ident in cut or ident not in finished:
            if ident in finished or ident not in cut:
                wrong.append(f"message {ident} is cut off, or never ends")
        elif texts.get(ident) != finished[ident]:
            wrong.append(f"message {ident}: {texts.get(ident)!r}, not {finished[ident]!r}")
    return wrong


MODES = (EVENTS, FOUR)
