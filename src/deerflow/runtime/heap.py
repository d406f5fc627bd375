"""Keeps what the C library holds of a serving process's memory small; glibc alone, else nothing.

Threads get arenas of their own in glibc, and what is freed in the middle of one stays with the
process. Python's lock lets one thread allocate at a time, so that one arena serves them all; after
50 runs at once it is 12 MiB smaller, and giving back what is free saves as much again.
"""

from __future__ import annotations

import asyncio
import ctypes
import sys
from typing import Any

_ARENA_MAX = -8
"""M_ARENA_MAX of malloc.h."""


def one_arena() -> None:
    """From now on, threads share one arena; for processes that are ours alone, at their start."""
    library = _library()
    if library is not None:
        library.mallopt(_ARENA_MAX, 1)


async def give_back() -> None:
    """A duty: return free pages to the system, in a thread; some milliseconds without the lock."""
    library = _library()
    if library is not None:
        await asyncio.to_thread(library.malloc_trim, 0)


def _library() -> Any:
    """The C library when it is glibc: others have neither function."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "gnu_get_libc_version") else None
