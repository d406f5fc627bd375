"""The two pipes between the server and one shell: requests in, NUL-separated replies out."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import Final

from deerflow.sandbox.confine import Confinement
from deerflow.sandbox.nursery import Cradle, Nursery

_FIELDS: Final = {b"R": 1, b"X": 1, b"E": 4, b"B": 4, b"P": 2, b"F": 2}
_LONGEST: Final = 4 << 20
_BACKLOG: Final = 64 << 20
"""Bytes that may wait for a shell which does not read; more ends it."""
_ERRORS: Final = 4096
_CHUNK: Final = 1 << 16

Listener = Callable[[bytes, list[bytes]], None]


class Wire:
    """One started shell and its pipes. What comes out is not trusted: nonsense ends the shell.

    Args:
        nursery: starts and ends it.
        listen: called with kind and fields of each reply.
        lost: called once when no process of it is left.
    """

    def __init__(self, nursery: Nursery, listen: Listener, lost: Callable[[], None]) -> None:
        self._nursery = nursery
        self._listen = listen
        self._lost = lost
        self._in = -1
        self._out = -1
        self._err = -1
        self._pending = bytearray()
        self._received = bytearray()
        self._fields: list[bytes] = []
        self._errors = bytearray()
        self._cradle: Cradle | None = None
        self._watch: asyncio.Task[None] | None = None

    @property
    def cradle(self) -> Cradle | None:
        """The process tree, None before `open`."""
        return self._cradle

    @property
    def errors(self) -> str:
        """What the sandbox's own programs complained about last; may hold host paths."""
        return self._errors.decode("utf-8", "replace").strip()

    async def open(self, plan: Confinement) -> None:
        """Start the process.

        Raises:
            SandboxError: it cannot be started.
        """
        loop = asyncio.get_running_loop()
        commands, self._in = os.pipe()
        self._out, replies = os.pipe()
        self._err, errors = os.pipe()
        for fd in (self._in, self._out, self._err):
            os.set_blocking(fd, False)
        try:
            self._cradle = await self._nursery.start(plan, (commands, replies, errors))
        except BaseException:
            self._close()
            raise
        finally:
            for fd in (commands, replies, errors):
                os.close(fd)
        loop.add_reader(self._out, self._read)
        loop.add_reader(self._err, self._read_errors)
        self._watch = asyncio.ensure_future(self._wait(self._cradle))

    def send(self, header: str, text: bytes) -> None:
        """Queue one request; never waits."""
        if self._in < 0:
            return
        if len(self._pending) > _BACKLOG:
            self._kill()
            return
        self._pending += header.encode("ascii") + text
        self._flush()

    async def end(self) -> None:
        """Kill the tree and wait until nothing of it is left."""
        if self._cradle is not None and self._watch is not None:
            self._nursery.kill(self._cradle)
            await self._cradle.gone.wait()
            await asyncio.shield(self._watch)

    async def _wait(self, cradle: Cradle) -> None:
        await cradle.gone.wait()
        self._read()  # what it said last
        self._read_errors()
        self._close()
        self._lost()

    def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._pending:
                written = os.write(self._in, memoryview(self._pending)[:_CHUNK])
                del self._pending[:written]
        except BlockingIOError:
            loop.add_writer(self._in, self._flush)
            return
        except OSError:
            self._pending.clear()
        loop.remove_writer(self._in)

    def _read(self) -> None:
        if self._out < 0:
            return
        try:
            data = os.read(self._out, _CHUNK)
        except BlockingIOError:
            return
        if not data:
            asyncio.get_running_loop().remove_reader(self._out)
            return
        self._received += data
        *fields, rest = self._received.split(b"\0")
        self._received = bytearray(rest)
        self._fields += [bytes(field) for field in fields]
        self._dispatch()

    def _dispatch(self) -> None:
        while self._fields:
            count = _FIELDS.get(self._fields[0])
            if count is None or len(self._received) > _LONGEST:
                self._fields.clear()
                self._kill()
                return
            if len(self._fields) <= count:
                return
            kind, *values = self._fields[: count + 1]
            del self._fields[: count + 1]
            self._listen(kind, values)

    def _kill(self) -> None:
        if self._cradle is not None:
            self._nursery.kill(self._cradle)

    def _read_errors(self) -> None:
        if self._err < 0:
            return
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._err, _CHUNK)
            if not data:
                asyncio.get_running_loop().remove_reader(self._err)
            self._errors += data
            del self._errors[:-_ERRORS]

    def _close(self) -> None:
        loop = asyncio.get_running_loop()
        for fd in (self._in, self._out, self._err):
            if fd >= 0:
                loop.remove_reader(fd)
                loop.remove_writer(fd)
                os.close(fd)
        self._in = self._out = self._err = -1
