"""Notices that nobody reads the output any more, before something is written again."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import select
import stat
import sys
from collections.abc import Callable, Generator


@contextlib.contextmanager
def noticing_departure(leave: Callable[[], None]) -> Generator[None]:
    """Call `leave` once when stdout is a pipe and its other end is closed (`| head -1`).

    Of other outputs nothing is noticed before the next write.
    """
    descriptor = _pipe()
    if descriptor is None:
        yield
        return
    loop = asyncio.get_running_loop()

    def look() -> None:
        loop.remove_reader(descriptor)  # one that is readable for another reason stays so
        if _is_gone(descriptor):
            leave()

    loop.add_reader(descriptor, look)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)


def _pipe() -> int | None:
    try:
        descriptor = sys.stdout.fileno()
        return descriptor if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else None
    except (OSError, io.UnsupportedOperation):
        return None


def _is_gone(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, 0)  # errors are told in any case
    return any(events & select.POLLERR for _, events in poll.poll(0))
