"""Finds runs and threads of users: what is someone else's answers like what does not exist."""

from __future__ import annotations

from deerflow.errors import NotFoundError
from deerflow.runtime.checks import no_thread
from deerflow.runtime.stopping import ended
from deerflow.storage.protocol import RunRow, Storage, ThreadRow

MOST = 1_000
"""Runs of a thread that one call looks through."""


class Lookup:
    """Runs and threads by the user's id and the client's ids.

    Args:
        storage: the stores.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def thread(self, user_id: str, thread_id: str) -> ThreadRow:
        """A thread.

        Raises:
            NotFoundError: unknown or someone else's, alike.
        """
        found = await self._storage.threads.get(user_id, thread_id)
        if found is None:
            raise no_thread(thread_id)
        return found

    async def run(self, user_id: str, thread_id: str, run_id: str) -> tuple[ThreadRow, RunRow]:
        """A run and its thread.

        Raises:
            NotFoundError: unknown or someone else's, alike.
        """
        threads = self._storage.threads
        thread = await threads.get(user_id, thread_id)
        run = await threads.run(run_id) if thread is not None else None
        if thread is None or run is None or run.thread_key != thread.thread_key:
            raise no_run(run_id)
        return thread, run

    async def find(self, user_id: str, run_id: str) -> tuple[ThreadRow, RunRow]:
        """A run of the user by its id alone. Raises like `run`."""
        threads = self._storage.threads
        run = await threads.run(run_id)
        thread = await threads.by_key(run.thread_key) if run is not None else None
        if run is None or thread is None or thread.user_id != user_id:
            raise no_run(run_id)
        return thread, run

    async def runs(
        self,
        user_id: str,
        thread_id: str,
        *,
        limit: int = 10,
        offset: int = 0,
        status: str | None = None,
    ) -> list[RunRow]:
        """Runs of a thread, newest first.

        Raises:
            NotFoundError: no such thread.
        """
        thread = await self.thread(user_id, thread_id)
        most = MOST if status is not None else offset + limit
        rows = await self._storage.threads.runs(thread.thread_key, limit=most)
        rows = [row for row in rows if status in (None, row.status)]
        return rows[offset : offset + limit]

    async def wait(self, thread_key: str, run_id: str) -> RunRow:
        """The row once the run has ended (or waits for a human); any number may wait.

        Raises:
            NotFoundError: no such run in the thread.
        """
        threads = self._storage.threads
        thread = await threads.by_key(thread_key)
        run = await threads.run(run_id)
        if thread is None or run is None or run.thread_key != thread_key:
            raise no_run(run_id)
        return await ended(self._storage, thread, run)


def no_run(run_id: str) -> NotFoundError:
    """The one way to say that a run does not exist or is someone else's."""
    return NotFoundError(f"There is no run {run_id[:80]!r} here.")
