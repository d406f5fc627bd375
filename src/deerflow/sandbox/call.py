"""One command on its way through a shell."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, field
from typing import Literal

from deerflow.sandbox.capture import Capture
from deerflow.sandbox.drain import PIPE_BYTES, Drain
from deerflow.sandbox.pipes import OutputPipe, OutputPipes
from deerflow.sandbox.tree import Call

Verdict = Literal["", "time", "disk", "cancelled"]
"""Why the server stops a command, "" while it does not."""


@dataclass(slots=True)
class RunningCall:
    """A command in flight.

    Attributes:
        number: unique in its sandbox.
        alone: whether it runs in the shell itself.
        pipe: what it prints into.
        capture: what it printed.
        leader: pid of its own shell as seen inside, 0 until known.
        code: exit code once `event` is set by its end.
        over: the shell reported its end, or the shell is gone.
        verdict: why it is to be stopped.
        event: set at its end and when a verdict falls.
    """

    number: str
    alone: bool
    pipe: OutputPipe
    capture: Capture
    leader: int = 0
    code: int = 0
    over: bool = False
    verdict: Verdict = ""
    event: asyncio.Event = field(default_factory=asyncio.Event)
    since: float = field(default_factory=lambda: time.clock_gettime(time.CLOCK_BOOTTIME))
    begun: float = field(default_factory=time.monotonic)
    _handed: bool = field(default=False, init=False)
    _ended: bool = field(default=False, init=False)

    def finish(self, code: int) -> None:
        """The command has ended."""
        if not self.over:
            self.code = code
            self.over = True
            self.event.set()

    def judge(self, verdict: Verdict) -> None:
        """Ask for its stop; the first reason counts."""
        self.verdict = self.verdict or verdict
        self.event.set()

    def identity(self) -> Call:
        """What its processes are told by."""
        return Call(self.number, self.leader, self.since)

    def listen(self, drain: Drain) -> None:
        """Begin to read the pipe on the loop; a long output goes to the drain's thread."""
        asyncio.get_running_loop().add_reader(self.pipe.fd, self._pour, drain)

    def _pour(self, drain: Drain) -> None:
        if not self._take():
            asyncio.get_running_loop().remove_reader(self.pipe.fd)
        elif self.capture.long:
            self._hand(drain)

    def _take(self) -> bool:
        """One chunk; False at the end of all writers."""
        try:
            data = os.read(self.pipe.fd, PIPE_BYTES)
        except BlockingIOError:
            return True
        self._ended = not data
        self.capture.feed(data)
        return bool(data)

    def _hand(self, drain: Drain) -> None:
        asyncio.get_running_loop().remove_reader(self.pipe.fd)
        self._handed = True
        drain.take(self.pipe.fd, self.capture, lambda: self.judge("disk"))

    async def collect(self, drain: Drain, pipes: OutputPipes) -> None:
        """Take what was printed until now; what comes later goes to the spill file alone."""
        self.pipe.let_go()
        if not self._handed:
            self._rest()
        if self._ended and not self._handed:
            pipes.give_back(self.pipe)
            self.capture.finish()
            return
        if not self._handed:
            self._hand(drain)
        await drain.finish(self.pipe.fd)
        self.capture.finish()
        pipes.retire(self.pipe, close=False)

    def _rest(self) -> None:
        asyncio.get_running_loop().remove_reader(self.pipe.fd)
        until = self.capture.total + PIPE_BYTES
        while not self._ended and self.capture.total < until:
            before = self.capture.total
            self._take()
            if self.capture.total == before:
                break

    def abandon(self, pipes: OutputPipes) -> None:
        """Close what is left after a cancellation."""
        if not self._handed:
            asyncio.get_running_loop().remove_reader(self.pipe.fd)
        pipes.retire(self.pipe, close=not self._handed)
