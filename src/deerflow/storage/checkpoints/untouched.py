"""Threads that this process has just made: nothing can be stored for them, so nothing is read."""

from __future__ import annotations

MOST = 64
"""Threads kept; one that is forgotten costs a read."""


class Untouched:
    """Keys of threads that were made here with their first run and have no checkpoint yet.

    While that run is open no other process may run the thread, so what this process has not put
    does not exist. A key leaves for good with the first thing that is put, the end of the run or
    the deletion of the thread.
    """

    def __init__(self) -> None:
        self._runs: dict[str, str] = {}

    def __contains__(self, thread_key: str) -> bool:
        return thread_key in self._runs

    def add(self, thread_key: str, run_id: str) -> None:
        """A thread is about to be made with this run; the oldest one is forgotten for it."""
        if len(self._runs) >= MOST:
            del self._runs[next(iter(self._runs))]
        self._runs[thread_key] = run_id

    def discard(self, thread_key: str) -> None:
        """Something is put for the thread, or it is gone."""
        self._runs.pop(thread_key, None)

    def ended(self, run_id: str) -> None:
        """The run ends: from now on others may go on with its thread."""
        for key in [key for key, known in self._runs.items() if known == run_id]:
            del self._runs[key]
