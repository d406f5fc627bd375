"""The server's end of the launcher: starts confined processes, ends them, hears of their end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections import deque
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import Any, Final

from deerflow.errors import SandboxError
from deerflow.sandbox.confine import Confinement
from deerflow.sandbox.launcher import MESSAGE_BYTES
from deerflow.sandbox.tree import Call

_SOURCES: Final = str(Path(__file__).resolve().parents[2])
_ENTRY: Final = (
    "import sys; sys.path.insert(0, sys.argv[2]); "
    "from deerflow.sandbox.launcher import main; main()"
)
_LOST: Final = "The process that starts sandboxes was lost."
_CURE: Final = "Run the command again; it starts a new one."


@dataclass(slots=True, eq=False)
class Cradle:
    """One confined process tree.

    Attributes:
        name: unique in this process.
        gone: set when no process of it is left.
        status: exit status of its first process, once gone.
    """

    name: str
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    status: int = 0


class Nursery:
    """Owns one launcher process, started on first use and again when it was lost.

    Bound to the event loop of its first use.
    """

    def __init__(self) -> None:
        self._link: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._cradles: dict[str, Cradle] = {}
        self._answers: dict[int, asyncio.Event] = {}
        self._starting = asyncio.Lock()
        self._count = 0
        self._waiting: deque[bytes] = deque()
        self._room = asyncio.Event()

    async def start(self, plan: Confinement, fds: tuple[int, int, int]) -> Cradle:
        """Fork a child that confines itself by the plan.

        Args:
            plan: what it does to itself and runs.
            fds: commands (read end), replies and errors (write ends); the caller closes its
                copies.

        Raises:
            SandboxError: no launcher can be had.
        """
        link = await self._ready()
        self._count += 1
        cradle = Cradle(f"{os.getpid()}-{self._count}")
        self._cradles[cradle.name] = cradle
        text = json.dumps({"do": "start", "name": cradle.name, "plan": asdict(plan)}).encode()
        try:
            if len(text) > MESSAGE_BYTES:
                raise SandboxError("The sandbox's settings are too long.", cure="Shorten them.")
            while not self._handed_over(link, text, fds):
                await self._room.wait()
        except OSError as error:
            self._drop()
            raise SandboxError(_LOST, cure=_CURE) from error
        return cradle

    @property
    def pid(self) -> int:
        """The launcher's pid, 0 while there is none."""
        return self._process.pid if self._process is not None else 0

    async def seed(self, groups: list[str]) -> None:
        """Fork the next child that starts in these control groups ahead of time."""
        await self._ready()
        self._tell({"do": "seed", "groups": groups})

    def kill(self, cradle: Cradle) -> None:
        """Begin to end a tree; `cradle.gone` tells when it is done."""
        if not cradle.gone.is_set():
            self._tell({"do": "kill", "name": cradle.name})

    async def end_call(self, cradle: Cradle, call: Call) -> None:
        """Kill the processes of one command alone; returns when they are killed."""
        if not cradle.gone.is_set():
            await self._ask({"do": "end_call", "name": cradle.name, "call": list(astuple(call))})

    async def purge(self, uid: int) -> None:
        """Kill every process of a uid that belongs to sandboxes alone."""
        await self._ready()
        await self._ask({"do": "purge", "uid": uid})

    async def _ask(self, message: dict[str, Any]) -> None:
        """Send and wait until it is done, or the launcher is lost."""
        self._count += 1
        event = self._answers[self._count] = asyncio.Event()
        self._tell(message | {"ask": self._count})
        if self._link is None:
            event.set()
        await event.wait()

    async def close(self) -> None:
        """End the launcher and with it every tree; returns when it has ended."""
        process = self._process
        self._drop()
        self._process = None
        if process is not None:
            await asyncio.to_thread(process.wait)

    async def _ready(self) -> socket.socket:
        async with self._starting:
            if self._link is None:
                if self._process is not None:
                    await asyncio.to_thread(self._process.wait)
                self._link = await asyncio.to_thread(self._spawn)
                asyncio.get_running_loop().add_reader(self._link.fileno(), self._hear)
            return self._link

    def _spawn(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and code
                [sys.executable, "-I", "-S", "-c", _ENTRY, str(theirs.fileno()), _SOURCES],
                env={},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            message = "The process that starts sandboxes could not be started."
            raise SandboxError(message) from error
        finally:
            theirs.close()
        return ours

    def _tell(self, message: dict[str, Any]) -> None:
        if self._link is not None:
            self._waiting.append(json.dumps(message).encode())
            self._flush()

    def _handed_over(self, link: socket.socket, text: bytes, fds: tuple[int, int, int]) -> bool:
        """Send a message with descriptors; False when there is no room for it yet.

        Raises:
            OSError: the launcher is gone.
        """
        if self._link is not link:
            raise ConnectionResetError
        with contextlib.suppress(BlockingIOError):
            if not self._waiting:
                socket.send_fds(link, [text], list(fds))
                return True
        self._await_room(link)
        return False

    def _flush(self) -> None:
        """Send what waits; many at once (a cancelled turn of many calls) fill the socket."""
        link = self._link
        if link is None:
            return
        asyncio.get_running_loop().remove_writer(link.fileno())
        try:
            while self._waiting:
                link.send(self._waiting[0])
                self._waiting.popleft()
        except BlockingIOError:
            self._await_room(link)
        except OSError:
            self._drop()
        else:
            self._room.set()

    def _await_room(self, link: socket.socket) -> None:
        self._room.clear()
        asyncio.get_running_loop().add_writer(link.fileno(), self._flush)

    def _hear(self) -> None:
        while self._link is not None:
            try:
                data = self._link.recv(MESSAGE_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._drop()
                return
            self._take(json.loads(data))

    def _take(self, message: dict[str, Any]) -> None:
        if message["is"] == "done":
            self._answers.pop(message["ask"]).set()
            return
        cradle = self._cradles.pop(message["name"], None)
        if cradle is not None:
            cradle.status = message["status"]
            cradle.gone.set()

    def _drop(self) -> None:
        """The launcher is gone or to go: whatever it held ends with it."""
        if self._link is not None:
            with contextlib.suppress(RuntimeError, OSError):
                asyncio.get_running_loop().remove_reader(self._link.fileno())
                asyncio.get_running_loop().remove_writer(self._link.fileno())
            self._link.close()
            self._link = None
        self._waiting.clear()
        self._room.set()
        for cradle in self._cradles.values():
            cradle.status = -9
            cradle.gone.set()
        self._cradles.clear()
        for event in self._answers.values():
            event.set()
        self._answers.clear()
