"""Ctrl-C and SIGTERM: the first stops the run and saves, the second ends the process at once."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

from deerflow.cli import output
from deerflow.cli.exits import STOPPED

STOP_SECONDS = 1.8
"""What stopping may take; then the process ends, since the log holds everything up to here."""

_SHOW_CURSOR = "\x1b[?25h"


class Stop:
    """Turns signals into the end of a run.

    Attributes:
        requested: a signal has come.
        thread_id: for the message how to go on, once it is known.
    """

    def __init__(self) -> None:
        self.requested = False
        self.thread_id = ""
        self._act: Callable[[], object] | None = None
        self._task: asyncio.Task[object] | None = None

    def listen(self) -> None:
        """Take the signals over; called inside the loop. A hang-up counts unless it is ignored."""
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        for number in _signals():
            loop.add_signal_handler(number, self._first)

    def attach(self, thread_id: str, act: Callable[[], object]) -> None:
        """From now on a signal calls `act` and does not cancel the caller's task."""
        self.thread_id = thread_id
        self._act = act

    def again(self) -> str:
        """How to go on."""
        if not self.thread_id:
            return "Stopped before the run began."
        thread = shlex.quote(self.thread_id)
        return f"Stopped; all is saved. Go on with: deerflow run --thread {thread} --resume"

    def _first(self) -> None:
        self.requested = True
        loop = asyncio.get_running_loop()
        for number in _signals():
            loop.remove_signal_handler(number)
            signal.signal(number, _second)
        watch = threading.Timer(STOP_SECONDS, self._overdue)
        watch.daemon = True
        watch.start()
        if self._act is not None:
            self._act()
        elif self._task is not None:
            self._task.cancel()

    def _overdue(self) -> None:
        _leave(f"\n{self.again()}")


def _signals() -> list[signal.Signals]:
    hang_up = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hang_up else [])]


def _second(number: int, frame: FrameType | None) -> None:
    _leave("")


def _leave(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(_SHOW_CURSOR)
    if text:
        output.note(text)
    os._exit(STOPPED)
