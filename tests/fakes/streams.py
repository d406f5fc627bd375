"""Logs written by hand, and streams read as a client reads them.

async with log(tmp_path) as written:
    await written.add("model_started", turn=1, message_id="m")
    await written.piece("m", 0, "hel")
    ...
    frames = await written.read(["messages-tuple"])
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from deerflow.events import Event
from deerflow.gateway.frames.encode import FrameCache
from deerflow.gateway.frames.follow import Asked, Frames
from deerflow.gateway.frames.modes import wanted
from deerflow.runtime.history import Histories
from deerflow.storage.protocol import Delta, RunRow, Storage, ThreadRow
from fakes.harness import scripted_harness

FOUR = ["messages-tuple", "values", "updates", "custom"]
"""Modes of the web client."""


@dataclass(frozen=True)
class Sent:
    """A frame as a client reads it."""

    event: str
    data: Any
    id: str


def frames_of(raw: bytes) -> list[Sent]:
    """Frames of what was sent; comments are left out, a missing id is that of the frame before."""
    found: list[Sent] = []
    ident = ""
    for block in raw.split(b"\n\n"):
        fields = dict(
            line.split(b": ", 1) for line in block.split(b"\n") if line and line[:1] != b":"
        )
        ident = fields.get(b"id", ident.encode()).decode()
        if b"event" in fields:
            data = orjson.loads(fields[b"data"])
            found.append(Sent(fields[b"event"].decode(), data, ident))
    return found


def text_of(frames: Sequence[Sent], message_id: str) -> str:
    """What a client that joins chunks shows of a message."""
    chunks = [frame.data[0] for frame in frames if frame.event == "messages"]
    return "".join(chunk["content"] for chunk in chunks if chunk["id"] == message_id)


@dataclass
class Log:
    """A run whose log is written by hand."""

    storage: Storage
    histories: Histories
    thread: ThreadRow
    run: RunRow
    cache: FrameCache = field(default_factory=FrameCache)

    async def add(self, type: str, **payload: Any) -> Event:
        return await self.storage.events.append(
            self.thread.thread_key, self.run.run_id, type, payload
        )

    async def begin(self, words: str = "Do it") -> None:
        await self.add(
            "message",
            message={"type": "human", "id": f"in-{self.run.run_id}", "content": words},
        )

    async def piece(self, message_id: str, offset: int, text: str) -> None:
        delta = Delta(self.run.run_id, message_id, offset, text)
        await self.storage.deltas.append(self.thread.thread_key, delta)

    async def say(self, message_id: str, text: str, *, pieces: int = 0, **more: Any) -> None:
        """A message from its beginning to its end."""
        await self.add("model_started", turn=1, message_id=message_id)
        for number in range(pieces):
            size = -(-len(text) // pieces)
            await self.piece(message_id, number * size, text[number * size : (number + 1) * size])
        await self.finish(message_id, text, **more)

    async def finish(self, message_id: str, text: str, **more: Any) -> None:
        message = {"type": "ai", "id": message_id, "content": text, **more}
        await self.add("message", message=message)
        await self.storage.deltas.finish(self.run.run_id, message_id)

    async def end(self, status: str = "success", error: dict[str, Any] | None = None) -> None:
        payload = {
            "status": status,
            "outcome": None,
            "usage": {},
            "error": error,
            "artifacts": [],
            "at": time.time(),
        }
        await self.storage.threads.end_run(
            self.run.run_id,
            status=status,
            outcome=None,
            error=error,
            event=("run_ended", payload),
        )

    def asked(self, modes: Sequence[str], after: str | None = None) -> Asked:
        return Asked(self.thread, self.run, wanted(modes), after)

    def frames(self) -> Frames:
        """A maker of streams; readers of one share what they read."""
        return Frames(self.storage, self.histories, self.cache)

    def follow(self, modes: Sequence[str], after: str | None = None) -> AsyncGenerator[bytes]:
        return self.frames().follow(self.asked(modes, after))

    async def raw(self, modes: Sequence[str], after: str | None = None) -> bytes:
        """Everything until the stream ends."""
        async with aclosing(self.follow(modes, after)) as chunks:
            return b"".join([chunk async for chunk in chunks])

    async def read(self, modes: Sequence[str], after: str | None = None) -> list[Sent]:
        return frames_of(await self.raw(modes, after))


@asynccontextmanager
async def log(home: Path, **sections: Any) -> AsyncGenerator[Log]:
    """A thread with one run that nobody executes."""
    async with scripted_harness(["never asked"], home, **sections) as harness:
        threads = harness.storage.threads
        thread = await threads.ensure("local", "t")
        started = {"input": "Do it", "resumed": False, "model": "scripted"}
        run = await threads.start_run(
            thread.thread_key, "0" * 32, input={}, config={}, event=("run_started", started)
        )
        yield Log(harness.storage, Histories(harness.parts), thread, run)
