"""Which worker this process writes for, by thread: what `Workers.fence` binds."""

from __future__ import annotations


class Fences:
    """Threads that are bound to a worker, and the runs that were claimed for them.

    Changed and read on the callers' side; a queued operation remembers its worker, so a fence that
    is taken away later does not let older writes pass.
    """

    def __init__(self) -> None:
        self._workers: dict[str, str] = {}
        self._threads: dict[str, str] = {}

    def bind(self, thread_key: str, worker_id: str | None) -> None:
        """See `Workers.fence`."""
        if worker_id is not None:
            self._workers[thread_key] = worker_id
            return
        self._workers.pop(thread_key, None)
        for run_id in [run for run, key in self._threads.items() if key == thread_key]:
            del self._threads[run_id]

    def claimed(self, run_id: str, thread_key: str) -> None:
        """A run is executed here: writes that name the run alone belong to its thread."""
        self._threads[run_id] = thread_key

    def scope_of(self, run_id: str) -> str:
        """The thread of a run that is executed here, "" for any other."""
        return self._threads.get(run_id, "")

    def released(self, run_id: str) -> str:
        """`scope_of` a run that ends; one of a thread without a worker is forgotten with it."""
        scope = self.scope_of(run_id)
        if scope not in self._workers:
            self._threads.pop(run_id, None)
        return scope

    def worker_of(self, scope: str) -> str:
        """The worker that a scope is bound to, "" when to none."""
        return self._workers.get(scope, "") if self._workers else ""
