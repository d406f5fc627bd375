"""The ledger of hand-overs: all that touches DBOS, kept on a thread and an event loop of its own.

DBOS brings its own threads and replaces the thread pool of every loop that it is called from; so
the service's loop never calls it. A workflow is one hand-over of a run: its arguments are ids, and
its body hops back to the service's loop.
"""

from __future__ import annotations

import asyncio
import contextvars
import datetime
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from deerflow.errors import ConflictError, StorageError
from deerflow.runtime.ledger_database import Place, make_engine
from deerflow.runtime.ledger_imports import load_dbos

if TYPE_CHECKING:
    import sqlalchemy as sa

    from deerflow.storage.protocol import RunRow

logger = logging.getLogger(__name__)

T = TypeVar("T")
Body = Callable[[str, str, str, int], Coroutine[Any, Any, None]]
"""Carries out a hand-over: its id, run id, user id, priority."""

NAME = "deerflow"
WORKFLOW = "execute_run"
QUEUE = "runs"
VERSION = "1"
"""Of the workflow's arguments and meaning, not of the product: an upgrade strands no run."""
POLL_SECONDS = 0.05
POLL_SECONDS_FILE = 0.5
"""Between two looks into the queue. On SQLite one process takes and executes, so that little waits
there but what is over the limits, and each look costs about 4 ms of CPU."""
THREADS = 16
KEPT_SECONDS = 3_600.0
"""How long ended hand-overs stay; only their ids are of use, while a run is pending."""
MOST = 1_000
"""Rows that one tidying goes through."""
HIGHEST, TICKS = 30, 2**26
"""Of a run's priority; and milliseconds (19 hours) after which the count of time begins anew."""
_ONLY = threading.Lock()
"""Held by the ledger that executes: DBOS keeps one instance and one register for the process."""

_ENDED = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")


@dataclass(frozen=True, slots=True)
class Handed:
    """A hand-over as the ledger has it: whether it has ended, waits, and who executes it."""

    ended: bool
    waits: bool
    executor: str


class Ledger:
    """Hand-overs of a process that executes runs, or only hands them on.

    Args:
        place: where it is kept.
        executor: name of this process in it, "" when it executes nothing.
    """

    def __init__(self, place: Place, executor: str) -> None:
        self._place = place
        self._executor = executor
        self._body: Body | None = None
        self._service: asyncio.AbstractEventLoop | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._workflow: Any = None
        self._client: Any = None
        self._made = False
        self._engine: sa.Engine | None = None

    async def open(self, body: Body) -> None:
        """Start the thread and launch.

        Raises:
            StorageError: the database cannot be used.
            ConflictError: this process has a ledger already; DBOS exists once.
        """
        if self._executor and not _ONLY.acquire(blocking=False):
            raise ConflictError("This process has a ledger of runs already.")
        self._body, self._service = body, asyncio.get_running_loop()
        up: Future[None] = Future()
        self._thread = threading.Thread(target=self._live, args=(up,), name="ledger", daemon=True)
        self._thread.start()
        await asyncio.wrap_future(up)

    async def close(self) -> None:
        """End the thread; hand-overs that are under way stay as they are."""
        if self._loop is not None and self._ending is not None:
            self._loop.call_soon_threadsafe(self._ending.set)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    # ---- from the service's loop ----

    async def begin(self, hand: str, run_id: str, user_id: str, priority: int) -> bool:
        """Execute in this process, without the queue; False when the id is in use."""
        return await self._call(self._begin(hand, (run_id, user_id, priority)))

    async def enqueue(self, hand: str, run: RunRow, user_id: str) -> bool:
        """Leave it to a worker that has a place; False when the id is in use."""
        ids = (run.run_id, user_id, run.priority)
        return await self._call(self._enqueue(hand, ids, urgency(run)))

    async def look(self, hand: str) -> Handed | None:
        """What is known of a hand-over."""
        found = await self._call(self._rows(workflow_ids=[hand]))
        return found[0][1] if found else None

    async def cancel(self, hands: Sequence[str]) -> None:
        """End hand-overs whose executor is gone; they count no more."""
        if hands:
            await self._call(self._cancel(list(hands)))

    async def of_executor(self, executor: str) -> list[str]:
        """Hand-overs that a process has not ended."""
        rows = await self._call(self._rows(status="PENDING", executor_id=executor))
        return [hand for hand, _ in rows]

    async def tidy(self, living: Iterable[str]) -> None:
        """End what vanished processes left, and drop what ended long ago."""
        known = {*living, self._executor}
        rows = await self._call(self._rows(status="PENDING"))
        await self.cancel([hand for hand, handed in rows if handed.executor not in known])
        await self._call(self._drop(time.time() - KEPT_SECONDS))

    async def _call(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None or self._loop.is_closed():
            work.close()
            raise StorageError("The ledger of runs is not open.")
        done = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
        await asyncio.wait({done})
        error = done.exception()
        if error is not None:
            raise StorageError("The ledger of runs failed.") from error
        return done.result()

    # ---- on the thread ----

    def _live(self, up: Future[None]) -> None:
        try:
            asyncio.run(self._main(up))
        finally:
            self._release()

    async def _main(self, up: Future[None]) -> None:
        self._ending = asyncio.Event()
        launched = asyncio.create_task(self._launch())
        await asyncio.wait({launched})
        error = launched.exception()
        if error is not None:
            logger.error("the ledger of runs cannot be opened", exc_info=error)
            problem = StorageError(
                "The ledger of runs cannot be opened.", cure="Look at the log of the server."
            )
            up.set_exception(problem)
            return
        self._loop = asyncio.get_running_loop()
        up.set_result(None)
        await self._ending.wait()

    async def _launch(self) -> None:
        quiet = logging.getLogger("dbos")
        if not quiet.handlers:  # else DBOS adds one that writes to the console
            quiet.addHandler(logging.NullHandler())
            quiet.addFilter(_is_news)
        load_dbos(lean=self._place.sqlite is not None)  # a second of CPU
        from dbos import DBOS, DBOSClient  # noqa: PLC0415

        engine = self._engine = make_engine(self._place)
        if not self._executor:
            self._client = DBOSClient(
                system_database_engine=engine,
                dbos_system_schema=self._place.schema,
                application_name=NAME,
            )
            return
        DBOS(
            config={
                "name": NAME,
                "system_database_engine": engine,
                "dbos_system_schema": self._place.schema,
                "application_version": VERSION,
                "executor_id": self._executor,
                "enable_otlp": False,
                "log_level": "WARNING",
                "use_listen_notify": False,
                "notification_listener_polling_interval_sec": 1.0,
                "max_executor_threads": THREADS,
            }
        )
        self._made = True

        async def execute(run_id: str, user_id: str, priority: int) -> None:
            await self._execute(run_id, user_id, priority)

        self._workflow = DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)(execute)
        DBOS.launch()
        await DBOS.register_queue_async(
            QUEUE,
            worker_concurrency=self._place.worker_runs,
            partition_concurrency=self._place.user_runs,
            polling_interval_sec=POLL_SECONDS if self._place.sqlite is None else POLL_SECONDS_FILE,
            on_conflict="always_update",
        )

    def _release(self) -> None:
        if self._client is not None:
            self._client.destroy()
        if self._made:
            from dbos import DBOS  # noqa: PLC0415

            DBOS.destroy(destroy_registry=True)
        self._made, self._workflow, self._client = False, None, None
        if self._engine is not None:  # DBOS leaves it to who made it
            self._engine.dispose()
        if self._executor:
            _ONLY.release()

    async def _execute(self, run_id: str, user_id: str, priority: int) -> None:
        from dbos import DBOS  # noqa: PLC0415

        if self._body is None or self._service is None:
            return
        body = self._body(str(DBOS.workflow_id), run_id, user_id, priority)
        # an empty context: what the run starts next is not a child of this workflow
        task = contextvars.Context().run(asyncio.run_coroutine_threadsafe, body, self._service)
        done = asyncio.wrap_future(task)
        await asyncio.wait({done})
        if not done.cancelled() and done.exception() is not None:  # of interest to us, not to DBOS
            logger.error("run %s was not executed", run_id, exc_info=done.exception())

    async def _begin(self, hand: str, ids: tuple[str, str, int]) -> bool:
        from dbos import DBOS, SetWorkflowID, error  # noqa: PLC0415

        try:
            with SetWorkflowID(hand, workflow_id_reuse_policy="reject"):
                await DBOS.start_workflow_async(self._workflow, *ids)
        except error.DBOSWorkflowIDInUseError:
            return False
        return True

    async def _enqueue(self, hand: str, ids: tuple[str, str, int], urgency: int) -> bool:
        from dbos import DBOS, SetEnqueueOptions, SetWorkflowID, error  # noqa: PLC0415

        try:
            if self._client is not None:
                options: Any = {
                    "workflow_name": WORKFLOW,
                    "queue_name": QUEUE,
                    "workflow_id": hand,
                    "workflow_id_reuse_policy": "reject",
                    "app_version": VERSION,
                    "priority": urgency,
                    "queue_partition_key": ids[1],
                }
                await self._client.enqueue_async(options, *ids)
                return True
            with (
                SetWorkflowID(hand, workflow_id_reuse_policy="reject"),
                SetEnqueueOptions(priority=urgency, queue_partition_key=ids[1]),
            ):
                await DBOS.enqueue_workflow_async(QUEUE, self._workflow, *ids)
        except error.DBOSWorkflowIDInUseError:
            return False
        return True

    async def _rows(self, **wanted: Any) -> list[tuple[str, Handed]]:
        rows = await self._door.list_workflows_async(
            **wanted, limit=MOST, load_input=False, load_output=False
        )
        return [
            (
                row.workflow_id,
                Handed(
                    row.status in _ENDED,
                    row.status in ("ENQUEUED", "DELAYED"),
                    row.executor_id or "",
                ),
            )
            for row in rows
        ]

    async def _cancel(self, hands: list[str]) -> None:
        await self._door.cancel_workflows_async(hands)

    async def _drop(self, before: float) -> None:
        moment = datetime.datetime.fromtimestamp(before, datetime.UTC).isoformat()
        rows = await self._rows(status=list(_ENDED), completed_before=moment)
        if rows:
            await self._door.delete_workflows_async([hand for hand, _ in rows])

    @property
    def _door(self) -> Any:
        """DBOS, or its client in a process that executes nothing: both look and change."""
        if self._client is not None:
            return self._client
        from dbos import DBOS  # noqa: PLC0415

        return DBOS


def urgency(run: RunRow) -> int:
    """DBOS's priority of a run: low numbers go first.

    The moment of submission is in it, since DBOS on SQLite knows the second of an entry alone.
    """
    level = HIGHEST - min(max(run.priority, 0), HIGHEST)
    return level * TICKS + int(run.created_at * 1000) % TICKS + 1


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a line of DBOS tells something: bodies never fail, so it speaks of ended ones."""
    return not any(words in str(record.msg) for words in _EXPECTED)


_EXPECTED = (
    "Exception encountered in asynchronous workflow",
    "outcome was not recorded",
    "Asyncio task cancelled",
)
"""What is said when a hand-over is ended in its executor's place, and when a process leaves."""
