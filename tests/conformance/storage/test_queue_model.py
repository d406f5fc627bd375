"""The queue of runs against a simple model, whatever is asked of it and in whatever order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deerflow.errors import ConflictError
from deerflow.storage.owner import this_owner
from deerflow.storage.protocol import NewRun, Storage
from fakes.queued import EXPIRED

THREADS, WORKERS = 2, 2
STRATEGIES = ("reject", "enqueue", "interrupt", "rollback")
ENDS = ("success", "error", "interrupted", "cancelled", "timeout")
ANY = 7
_WHICH = st.integers(0, ANY)
STEPS = st.one_of(
    st.tuples(st.just("submit"), st.integers(0, THREADS - 1), st.sampled_from(STRATEGIES)),
    st.tuples(st.just("claim"), _WHICH, st.integers(0, WORKERS - 1)),
    st.tuples(st.just("end"), _WHICH, st.sampled_from(ENDS)),
    st.tuples(st.just("stop"), _WHICH, st.sampled_from(("interrupt", "rollback"))),
    st.tuples(st.just("put_back"), _WHICH, st.none()),
    st.tuples(st.just("remove"), _WHICH, st.none()),
    st.tuples(st.just("register"), st.integers(0, WORKERS - 1), st.booleans()),
    st.tuples(st.just("take_over"), st.integers(0, WORKERS - 1), st.none()),
)


@dataclass
class Run:
    """What the model knows of a run."""

    id: str
    thread: int
    status: str = "pending"
    owner: str = ""
    cancel: str = ""
    attempt: int = 0

    @property
    def open(self) -> bool:
        """Whether it has not ended."""
        return self.status in ("pending", "running")

    @property
    def doomed(self) -> bool:
        """Whether it is to be taken back."""
        return (self.status, self.cancel) == ("cancelled", "rollback")

    def seen(self) -> tuple[Any, ...]:
        """What is compared."""
        return (self.id, self.status, self.owner, self.cancel, self.attempt)


@dataclass
class Model:
    """Runs in the order of their submission, and workers with whether their lease holds."""

    runs: list[Run] = field(default_factory=list[Run])
    workers: dict[str, bool] = field(default_factory=dict[str, bool])
    submitted: int = 0

    def unfinished(self, thread: int) -> list[Run]:
        """In order."""
        return [run for run in self.runs if run.thread == thread and run.open]

    def ready(self) -> list[Run]:
        """What may start."""
        heads: list[Run] = []
        for number in range(THREADS):
            own = (run for run in self.runs if run.thread == number)
            heads += [run for run in own if run.open or run.doomed][:1]
        return [run for run in heads if run.status == "pending"]

    def likely(self, what: str) -> list[Run]:
        """Runs with which it does something: chance alone seldom meets them."""
        if what == "claim":
            return self.ready()
        if what == "end":
            return [run for run in self.runs if run.status == "running"]
        return [run for run in self.runs if run.open == (what == "stop")]

    def submit(self, id: str, thread: int, strategy: str) -> bool:
        """False when it is refused."""
        before = self.unfinished(thread)
        if strategy == "reject" and before:
            return False
        if strategy in ("interrupt", "rollback"):
            for run in before:
                self.stop(run, strategy)
        self.runs.append(Run(id, thread))
        return True

    def claim(self, run: Run, worker: str) -> bool:
        """Whether it is had."""
        if worker not in self.workers or run not in self.ready():
            return False
        run.status, run.owner, run.attempt = "running", worker, run.attempt + 1
        return True

    def stop(self, run: Run, action: str) -> None:
        """Ask for its end."""
        if run.open:
            run.cancel = "rollback" if "rollback" in (run.cancel, action) else action
            if run.status == "pending":
                run.status = "cancelled"

    def put_back(self, run: Run) -> bool:
        """Whether it waits now."""
        if run.status == "running":
            run.status, run.owner = "pending", ""
        elif not run.open:
            if run.status == "success" or self.unfinished(run.thread):
                return False
            run.status, run.owner, run.cancel = "pending", "", ""
        return True

    def take_over(self, worker: str) -> list[Run] | None:
        """The runs that wait again."""
        if self.workers.get(worker, True):
            return None
        del self.workers[worker]
        found = [run for run in self.runs if run.status == "running" and run.owner == worker]
        for run in found:
            run.status, run.owner = "pending", ""
        return found


class Pair:
    """A model and a storage that is asked the same; names are new for every example."""

    def __init__(self, storage: Storage, example: int, keys: list[str]) -> None:
        self._storage = storage
        self._name = f"e{example}"
        self._keys = keys
        self.model = Model()

    def worker(self, number: int) -> str:
        """A worker's id."""
        return f"w-{self._name}-{number}"

    async def step(self, what: str, which: int, how: Any) -> None:
        """Do it on both sides and compare the answers."""
        if what in ("submit", "register", "take_over"):
            await getattr(self, f"_{what}")(which, how)
        elif self.model.runs:
            likely = self.model.likely(what) if which < ANY else []
            runs = likely or self.model.runs
            await getattr(self, f"_{what}")(runs[which % len(runs)], how)

    async def _submit(self, thread: int, strategy: Any) -> None:
        self.model.submitted += 1
        id = f"{self._name}-{self.model.submitted}"
        row = await self._storage.threads.by_key(self._keys[thread])
        assert row is not None
        before = [run for run in self.model.unfinished(thread) if strategy in STRATEGIES[2:]]
        try:
            found = await self._storage.queue.submit(
                row, NewRun(id, {}, strategy=strategy), new=False
            )
        except ConflictError:
            found = None
        assert self.model.submit(id, thread, strategy) == (found is not None)
        if found is not None:
            assert found.ready == (self.model.runs[-1] in self.model.ready())
            assert [run.run_id for run in found.cancelled] == [run.id for run in before]

    async def _claim(self, run: Run, number: int) -> None:
        found = await self._storage.queue.claim(run.id, self.worker(number))
        assert self.model.claim(run, self.worker(number)) == (found is not None)

    async def _end(self, run: Run, status: str) -> None:
        if run.status == "running":  # only who executes it ends it
            await self._storage.threads.end_run(run.id, status=status, outcome=None)
            run.status = status

    async def _stop(self, run: Run, action: Any) -> None:
        found = await self._storage.queue.ask_to_stop(run.id, action)
        self.model.stop(run, action)
        assert found is not None
        assert found.status == run.status

    async def _put_back(self, run: Run, _: None) -> None:
        found = await self._storage.queue.put_back(run.id)
        assert self.model.put_back(run) == (found is not None)

    async def _remove(self, run: Run, _: None) -> None:
        if not run.open:
            await self._storage.queue.remove(run.id)
            self.model.runs.remove(run)

    async def _register(self, number: int, lives: bool) -> None:
        seconds = 60.0 if lives else EXPIRED
        process = this_owner() if lives else "1:1:elsewhere"
        await self._storage.workers.register(self.worker(number), process, seconds=seconds)
        self.model.workers[self.worker(number)] = lives

    async def _take_over(self, number: int, _: None) -> None:
        found = await self._storage.workers.take_over(self.worker(number))
        wanted = self.model.take_over(self.worker(number))
        assert (wanted is None) == (found is None)
        assert [run.run_id for run in found or []] == [run.id for run in wanted or []]

    async def compare(self) -> None:
        """Every run, what is ready, and that at most one run of a thread is executed."""
        for number, key in enumerate(self._keys):
            rows = (await self._storage.threads.runs(key, limit=1000))[::-1]
            mine = [run for run in self.model.runs if run.thread == number]
            found = [(r.run_id, r.status, r.owner, r.cancel, r.attempt) for r in rows]
            assert found == [run.seen() for run in mine]
            assert [row.status for row in rows].count("running") <= 1
            head = await self._storage.queue.next_in(key)
            wanted = [run.id for run in self.model.ready() if run.thread == number]
            assert ([] if head is None else [head.run_id]) == wanted
            thread = await self._storage.threads.by_key(key)
            assert thread is not None
            assert (thread.status == "busy") == any(run.open for run in mine)
        for found, wanted in (
            (await self._storage.queue.ready(limit=1000), self.model.ready()),
            (
                await self._storage.queue.to_take_back(limit=1000),
                [run for run in self.model.runs if run.doomed],
            ),
        ):
            mine = [run.run_id for run in found if run.run_id.startswith(f"{self._name}-")]
            assert sorted(mine) == sorted(run.id for run in wanted)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(todo=st.lists(STEPS, min_size=25, max_size=40))
async def test_it_does_what_the_model_does(
    storage: Storage, todo: list[tuple[str, int, Any]]
) -> None:
    example = len(await storage.threads.list("ann", limit=100_000)) // THREADS
    rows = [await storage.threads.ensure("ann", f"{example}-{n}") for n in range(THREADS)]
    pair = Pair(storage, example, [row.thread_key for row in rows])
    for number in range(WORKERS):
        await pair.step("register", number, number == 0)
    for number, (what, which, how) in enumerate(todo, 1):
        await pair.step(what, which, how)
        if number % 4 == 0 or number == len(todo):
            await pair.compare()
    for row in [
        *await storage.workers.living(),
        *await storage.workers.dead(),
    ]:  # the next example begins with none
        await storage.workers.retire(row.worker_id)
    for row in rows:
        await storage.threads.delete("ann", row.thread_id)
        await storage.threads.ensure("ann", row.thread_id)
