"""The seam of threads and their runs: rows and what is done with them.

Part of `protocol.py`, which hands it on.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """A thread as the list shows it.

    Attributes:
        user_id: owner.
        thread_id: the client's id, unique per user.
        thread_key: random internal id; LangGraph, folders, blobs and locks use it, never thread_id.
        title: or "".
        created_at: UTC seconds.
        updated_at: UTC seconds of the last run.
        status: idle, busy, interrupted or error.
        metadata: client's JSON object.
        last_seq: highest event seq.
    """

    user_id: str
    thread_id: str
    thread_key: str
    title: str
    created_at: float
    updated_at: float
    status: str
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    last_seq: int = 0

    @classmethod
    def new(cls, user_id: str, thread_id: str, metadata: dict[str, Any] | None = None) -> ThreadRow:
        """A thread that does not exist yet, with a key that no other one has."""
        key, now = secrets.token_hex(16), time.time()
        return cls(user_id, thread_id, key, "", now, now, "idle", metadata or {})


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run: states `pending → running → success | error | interrupted | timeout | cancelled`."""

    run_id: str
    thread_key: str
    status: str
    created_at: float
    started_at: float | None = None
    ended_at: float | None = None
    input: dict[str, Any] = field(default_factory=dict[str, Any])
    config: dict[str, Any] = field(default_factory=dict[str, Any])
    outcome: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    owner: str = ""
    """Who runs it: a process (see `deerflow.storage.owner`) or a worker (see `Workers`)."""
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    """The client's JSON object."""
    not_before: float | None = None
    """UTC seconds before which it does not start."""
    cancel: str = ""
    """"", "interrupt" or "rollback": somebody asked for its end."""
    attempt: int = 0
    """Claims by workers so far."""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class ThreadQuery:
    """Which threads, and in what order.

    Attributes:
        metadata: all of these keys have exactly these values.
        status: idle, busy, interrupted or error.
        ids: only these thread ids; None for all.
        limit: how many at most.
        offset: how many to leave out first.
        sort_by: column.
        descending: direction.
        pinned_first: threads whose metadata has `deerflow_pinned` true come first.
    """

    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    status: str | None = None
    ids: tuple[str, ...] | None = None
    limit: int = 50
    offset: int = 0
    sort_by: Literal["updated_at", "created_at", "thread_id", "status"] = "updated_at"
    descending: bool = True
    pinned_first: bool = False


@runtime_checkable
class Threads(Protocol):
    """Threads and runs of users."""

    async def ensure(
        self, user_id: str, thread_id: str, metadata: dict[str, Any] | None = None
    ) -> ThreadRow:
        """The thread, created with a new random key when it is new."""
        ...

    async def get(self, user_id: str, thread_id: str) -> ThreadRow | None:
        """The thread or None (also when it is someone else's)."""
        ...

    async def list(
        self, user_id: str, *, limit: int = 50, before: tuple[float, str] | None = None
    ) -> list[ThreadRow]:
        """Newest first; `before` = (updated_at, thread_key) of the last row of the page before."""
        ...

    async def by_key(self, thread_key: str) -> ThreadRow | None:
        """The thread of an internal key, None when it is deleted."""
        ...

    async def search(self, user_id: str, query: ThreadQuery) -> list[ThreadRow]:
        """The user's threads that a query asks for, without reading checkpoints."""
        ...

    async def count(self, user_id: str, query: ThreadQuery) -> int:
        """How many there are, whatever the query's limit and offset."""
        ...

    async def describe(self, thread_key: str, metadata: dict[str, Any]) -> ThreadRow:
        """Merge into the client's metadata; a value of None removes its key.

        Raises:
            ThreadGoneError: the thread was deleted.
        """
        ...

    async def copy(
        self,
        source_key: str,
        target: ThreadRow,
        *,
        seq: int | None = None,
        checkpoint_id: str | None = None,
    ) -> ThreadRow | None:
        """Make a thread that holds another one's states, events and references to blobs.

        Args:
            source_key: the thread that is read; its runs are not copied, events keep their ids.
            target: from `ThreadRow.new`, with title and metadata as they are to be.
            seq: last event that is copied, None for all.
            checkpoint_id: the state that becomes the copy's newest one, None for all states.

        Returns:
            The new row; None when the user has a thread of this id by now, nothing is written then.

        Raises:
            NotFoundError: there is no such source.
            ThreadGoneError: it was deleted.
        """
        ...

    def update(
        self, thread_key: str, *, title: str | None = None, status: str | None = None
    ) -> Awaitable[None]:
        """Change fields, queued in order with the step's other writes."""
        ...

    async def delete(self, user_id: str, thread_id: str) -> str | None:
        """Remove rows, events, deltas, journal, checkpoints and references; the key is retired.

        Returns:
            The retired thread_key (its folders are the caller's to remove), None when unknown.
        """
        ...

    async def start_run(
        self,
        thread_key: str,
        run_id: str,
        *,
        input: dict[str, Any],
        config: dict[str, Any],
        event: tuple[str, dict[str, Any]] | None = None,
    ) -> RunRow:
        """Insert the run row and its first event in one transaction; the thread turns busy.

        Raises:
            ConflictError: another run of the thread is active in a living process.
        """
        ...

    async def open_run(
        self,
        thread: ThreadRow,
        run_id: str,
        *,
        input: dict[str, Any],
        config: dict[str, Any],
        event: tuple[str, dict[str, Any]] | None = None,
    ) -> RunRow | None:
        """Make a thread (see `ThreadRow.new`) and start its first run in one transaction.

        Returns:
            None when the user has a thread of this id by now; nothing is written then.

        Raises:
            ConflictError: the key was used before, or a run with this id exists.
        """
        ...

    async def reopen_run(self, thread_key: str, run_id: str) -> RunRow:
        """Take over an unfinished run (its process died, or it was stopped) for this process.

        Raises:
            ConflictError: a living process executes a run of this thread.
            NotFoundError: no such run, or it ended with success.
        """
        ...

    def end_run(
        self,
        run_id: str,
        *,
        status: str,
        outcome: dict[str, Any] | None,
        error: dict[str, Any] | None = None,
        usage: dict[str, Any] | None = None,
        event: tuple[str, dict[str, Any]] | None = None,
    ) -> Awaitable[None]:
        """Close a run and log its last event in one transaction; the first end counts.

        The thread turns idle, interrupted or error, or stays busy when another run of it is
        executed or ready; webhooks that waited for the end are due. After a success nobody
        resumes: the run's journal and the checkpoints of children (namespaces other than "") are
        dropped.

        Raises:
            StorageError: a success, but something that was queued before it is not stored.
        """
        ...

    async def runs(self, thread_key: str, *, limit: int = 50) -> list[RunRow]:
        """Runs of a thread, newest first."""
        ...

    async def run(self, run_id: str) -> RunRow | None:
        """One run."""
        ...

    async def active_run(self, thread_key: str) -> RunRow | None:
        """The thread's run that has not ended; `owner.is_alive` tells whether it is executed."""
        ...

    async def abandon_run(self, run_id: str) -> None:
        """Close a run whose process died: error `process_died`. Nothing when it has ended."""
        ...


@runtime_checkable
class Expiry(Protocol):
    """What has outlived its time, of all users; any number of processes may remove it."""

    async def threads(self, before: float, *, limit: int = 100) -> list[ThreadRow]:
        """Threads in which nothing has happened since a time, and that nothing keeps.

        Kept are pinned ones (metadata `deerflow_pinned`), those with an unfinished run, a call that
        waits for a human or a webhook that is to be called, and those of an active schedule.

        Args:
            before: UTC seconds; of the newest run and of the newest event.
            limit: how many at most, the oldest first.
        """
        ...

    async def remove(self, thread_key: str, before: float) -> bool:
        """Remove a thread like `Threads.delete`, if it is still among `threads`.

        Returns:
            Whether this call removed it (its folders are the caller's to remove).
        """
        ...

    async def forget(self, before: float) -> int:
        """Drop the journal and the cut-off text of failed runs that nobody goes on with any more.

        A later run of the thread has succeeded, and both ended before `before` (UTC seconds).
        States and events stay: newer states are built on older ones.

        Returns:
            How many rows.
        """
        ...
