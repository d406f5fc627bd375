"""The end of `deerflow run`: what waits for the memory is worked off, for a bounded time."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Generator
from contextlib import contextmanager

from deerflow.cli import output
from deerflow.cli.stop import Stop
from deerflow.errors import DeerFlowError
from deerflow.wiring.harness import Harness

_ERASE = "\r\x1b[2K"


async def remember(harness: Harness, user_id: str, stop: Stop) -> None:
    """Work off the user's exchanges, those that dead processes have left included.

    A failure changes nothing about the run; what is left is told. A signal ends the waiting.

    Args:
        harness: still open.
        user_id: whose exchanges.
        stop: hears of signals.
    """
    memory = harness.memory
    if memory is None:
        return
    seconds = harness.loaded.config.memory.shutdown_flush_timeout_seconds
    try:
        left = await memory.pending(user_id)
        if left:
            flush = asyncio.create_task(memory.flush(user_id=user_id, seconds=seconds))
            stop.attach(stop.thread_id, flush.cancel)
            with _line(f"Remembering what was said, at most {seconds:g} s (Ctrl-C: later)"):
                left = (await flush).left
    except asyncio.CancelledError:
        if not stop.requested:
            raise
        left = await memory.pending(user_id)
    except DeerFlowError as error:
        output.note(f"deerflow: The memory could not be brought up to date: {error}")
        return
    if left:
        things = "1 exchange waits" if left == 1 else f"{left} exchanges wait"
        output.note(f"deerflow: {things} to be remembered; the next run goes on with it.")


@contextmanager
def _line(text: str) -> Generator[None]:
    """One line on a terminal while something takes its time."""
    shown = sys.stderr.isatty()
    if shown:
        sys.stderr.write(text)
        sys.stderr.flush()
    try:
        yield
    finally:
        if shown:
            sys.stderr.write(_ERASE)
            sys.stderr.flush()
